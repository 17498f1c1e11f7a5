"""Dropout that is run again within a backward pass is compared with what it drew, and draws what it would have drawn."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from preflight.monitor.collect.reruns import Reruns  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.drop = nn.Linear(4, 4), nn.Dropout(0.5)

    def forward(self, x: Any) -> Any:
        return self.drop(self.fc(x))


class Net(nn.Module):
    def __init__(self, **how: Any) -> None:
        super().__init__()
        self.embed = nn.Linear(4, 4)
        self.block = Block()
        self.how = how

    def forward(self, x: Any) -> Any:
        return checkpoint(self.block, self.embed(x), **self.how)


def trained(**how: Any) -> list[float]:
    torch.manual_seed(3)
    model = Net(**how)
    losses = []
    for _ in range(3):
        loss = model(torch.randn(8, 4)).square().sum()
        model.zero_grad()
        loss.backward()
        losses += [loss.item(), float(model.embed.weight.grad.sum())]
    return losses


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("kept", [False, True])
def test_the_state_of_the_generator_is_compared_and_left_alone(reentrant: bool, kept: bool) -> None:
    how = {"use_reentrant": reentrant, "preserve_rng_state": kept}
    without = trained(**how)
    with recorded() as told:
        assert trained(**how) == without
    assert not told.table("trouble")
    seen = [(call["object"], call["args"]["same"]) for call in told.calls("rerun")]
    assert seen == [("model.block.drop", kept)]


def test_no_state_is_read_where_the_graph_holds_all_of_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bool] = []
    monkeypatch.setattr(Reruns, "first", lambda self, module, args: read.append(torch.is_grad_enabled()))
    with recorded():
        block = Block()
        block(torch.randn(8, 4)).sum().backward()
        with torch.no_grad():
            block(torch.randn(8, 4))
    assert read == [False]


def test_nothing_is_told_without_a_second_run_or_without_dropping() -> None:
    with recorded() as told:
        model = Net(use_reentrant=False, preserve_rng_state=False)
        model.eval()
        model(torch.randn(8, 4)).sum().backward()
        block = Block()
        block(torch.randn(8, 4)).sum().backward()
    assert not told.table("trouble")
    assert told.calls("rerun") == []
