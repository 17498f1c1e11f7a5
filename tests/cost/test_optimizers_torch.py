"""Optimizer states against what torch's classes put into their state."""

from __future__ import annotations

import pytest

from preflight.cost.optimizers import optimizer_state

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

OTHERS = {"SparseAdam", "Optimizer", "Adafactor", "LBFGS"}
NAMES = sorted(
    name
    for name in dir(torch.optim)
    if isinstance(getattr(torch.optim, name), type) and name not in OTHERS and name != "LRScheduler"
)


@pytest.mark.parametrize("name", NAMES)
def test_full_states(name: str) -> None:
    state = optimizer_state(name)
    assert state is not None, f"what torch.optim.{name} keeps is not known"
    weight = torch.nn.Parameter(torch.randn(64, 32))
    optimizer = getattr(torch.optim, name)([weight], lr=0.01)
    weight.sum().backward()
    optimizer.step()
    kept = sum(t.numel() for t in optimizer.state[weight].values() if torch.is_tensor(t) and t.numel() > 1)
    assert kept == state.full * weight.numel()


def test_momentum_adds_a_state_to_sgd() -> None:
    state = optimizer_state("SGD", 0.9)
    assert state is not None
    assert state.full == 1


@pytest.mark.parametrize(
    "spelling", ["adamw_torch_fused", "torch.optim.AdamW", "adamw-torch", "FusedAdamW", "adamw_hf"]
)
def test_spelling_does_not_matter(spelling: str) -> None:
    assert optimizer_state(spelling) == optimizer_state("adamw")


def test_unknown_name_is_none() -> None:
    assert optimizer_state("MyOptimizer") is None
