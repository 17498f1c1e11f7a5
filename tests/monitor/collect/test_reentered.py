"""What the recorder tells of blocks that are checkpointed by re-entry."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.torch


class Net(nn.Module):  # type: ignore[misc, name-defined]
    """A block that is checkpointed, and a head."""

    def __init__(self, call: Callable[[Any], Any], reentrant: bool) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        self.head = nn.Linear(4, 2)
        self.call, self.reentrant = call, reentrant

    def forward(self, x: Any) -> Any:
        from torch.utils.checkpoint import checkpoint

        return self.head(checkpoint(self.call(self.block), x, use_reentrant=self.reentrant))


CALLS: dict[str, Callable[[Any], Any]] = {
    "the module": lambda block: block,
    "its method": lambda block: block.forward,
    "filled in": lambda block: functools.partial(block.__call__),
    "around it": lambda block: lambda x: block(x),
}


def told(call: Callable[[Any], Any], needs: bool = False, reentrant: bool = True, frozen: bool = False) -> list[Any]:
    with recorded() as kept:
        net = Net(call, reentrant)
        net.block.requires_grad_(not frozen)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.randn(3, 4, requires_grad=needs)).sum().backward()
            optimizer.step()
    return [(row["object"], row["args"]["reached"]) for row in kept.calls("reentered")]


class Warm(nn.Module):  # type: ignore[misc, name-defined]
    """A network of which the head alone is trained at first, on what the rest gives without a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = Net(CALLS["the module"], True), nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            features = self.body(x)
        return self.head(features)


@pytest.mark.filterwarnings("ignore:None of the inputs")
def test_a_block_without_a_graph_is_not_told_of() -> None:
    with recorded() as kept:
        net = Warm()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.randn(3, 4)).sum().backward()
            optimizer.step()
    assert not kept.calls("reentered")


@pytest.mark.filterwarnings("ignore:None of the inputs")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_block_is_told_of_with_what_it_is_given(call: Callable[[Any], Any]) -> None:
    assert set(told(call)) == {("net.block", False)}
    assert set(told(call, needs=True)) == {("net.block", True)}


@pytest.mark.filterwarnings("ignore:None of the inputs")
def test_a_block_that_is_frozen_or_stays_in_the_graph_is_not() -> None:
    assert told(CALLS["the module"], frozen=True) == []
    assert told(CALLS["the module"], reentrant=False) == []
