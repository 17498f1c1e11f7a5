"""Gradients that the program put in the place of those of a backward pass are told at the step that takes them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

pytestmark = pytest.mark.torch
nn = torch.nn


def rewritten(between: Callable[[Any, Any], None]) -> list[bool]:
    """Of two steps, whether each took other gradients than the last pass left, where this was done in between."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recorded() as kept:
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.randn(8, 3)).square().sum().backward()
            between(model, optimizer)
            optimizer.step()
    steps = [row["args"] for row in kept.table("call") if row["name"] == "step"]
    return [bool(args.get("rewritten")) for args in steps]


def put(model: Any, optimizer: Any) -> None:
    """What gradient surgery does: gradients are taken, cleared, and others put there."""
    held = [one.grad.clone() for one in model.parameters()]
    optimizer.zero_grad()
    for one, gradient in zip(model.parameters(), held, strict=True):
        one.grad = gradient / 2


def clip(model: Any, optimizer: Any) -> None:
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)


def again(model: Any, optimizer: Any) -> None:
    """A second pass, which adds to the gradients of the first."""
    model(torch.randn(8, 3)).square().sum().backward()


def test_gradients_that_the_program_puts_there_are_told() -> None:
    assert rewritten(put) == [True, True]


@pytest.mark.parametrize("between", [clip, again, lambda model, optimizer: None])
def test_those_of_the_pass_are_not_however_they_were_changed(between: Callable[[Any, Any], None]) -> None:
    assert rewritten(between) == [False, False]
