"""Parameters of one number that a program makes anew for each pass."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

pytestmark = pytest.mark.torch


def _told(weight: Any, passes: int = 4) -> list[float]:
    """Train with a loss that is multiplied by a parameter; return the values of those that are told."""
    with recorded() as kept:
        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(passes):
            optimizer.zero_grad()
            (model(torch.ones(2, 3)).square().mean() * weight().exp()).backward()
            optimizer.step()
    return [row["value"] for row in kept.table("scalar") if row["name"] == "number.anew"]


def test_a_parameter_that_is_made_for_each_pass_is_told() -> None:
    assert _told(lambda: torch.nn.Parameter(torch.tensor(0.5))) == [0.5] * 3


def test_one_that_is_kept_is_not_though_nobody_steps_it() -> None:
    kept = torch.nn.Parameter(torch.tensor(0.5))
    assert _told(lambda: kept) == []


def test_a_larger_one_is_not() -> None:
    assert _told(lambda: torch.nn.Parameter(torch.zeros(2, 3)).sum()) == []


def _probed(read: bool, hook: bool = False) -> list[float]:
    """Train with a loss that is multiplied by a parameter which the training function holds, for its gradient or not."""
    values = []

    def train(model: Any, optimizer: Any) -> None:
        optimizer.zero_grad()
        scale = torch.nn.Parameter(torch.ones(()))
        if hook:
            scale.register_hook(values.append)
        (model(torch.ones(2, 3)).square().mean() * scale).backward()
        optimizer.step()

    def train_and_tell(model: Any, optimizer: Any) -> None:
        optimizer.zero_grad()
        scale = torch.nn.Parameter(torch.ones(()))
        (model(torch.ones(2, 3)).square().mean() * scale).backward()
        values.append(scale.grad.item())
        optimizer.step()

    with recorded() as kept:
        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(4):
            (train_and_tell if read else train)(model, optimizer)
    return [row["value"] for row in kept.table("scalar") if row["name"] == "number.anew"]


def test_one_that_is_made_for_its_gradient_alone_is_a_probe() -> None:
    assert _probed(read=True) == []
    assert _probed(read=False, hook=True) == []
    assert _probed(read=False) == [1.0] * 3
