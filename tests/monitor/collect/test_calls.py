"""An iteration that is not told in detail takes few calls of the recorder's own functions, whatever the model's size."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

from preflight.monitor import collect  # noqa: E402

pytestmark = pytest.mark.torch

_OWN = os.path.dirname(os.path.abspath(collect.__file__))


def _training(layers: int) -> Callable[[], None]:
    blocks = [torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.1)) for _ in range(layers)]
    net = torch.nn.Sequential(*blocks, torch.nn.Linear(4, 3))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)

    def iteration() -> None:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(torch.randn(8, 4)), torch.randint(0, 3, (8,)))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()

    return iteration


def _calls(iteration: Callable[[], None]) -> int:
    """How many functions of the recorder an iteration calls."""
    count = 0

    def note(frame: Any, event: str, _: Any) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename.startswith(_OWN)

    sys.setprofile(note)
    try:
        iteration()
    finally:
        sys.setprofile(None)
    return count


def _quiet(layers: int) -> int:
    """The fewest calls in one of several iterations: now and then the memory is read, or weights are looked at."""
    with recorded(detail_first=0, detail_every=0):
        iteration = _training(layers)
        for _ in range(8):
            iteration()
        return min(_calls(iteration) for _ in range(6))


def test_an_iteration_that_is_not_told_in_detail_takes_few_calls() -> None:
    assert _quiet(4) < 470


def test_a_larger_model_takes_more_calls_for_its_functional_calls_alone() -> None:
    # Each dropout goes through a function that watches it, and is counted in the mode of the model.
    assert _quiet(14) - _quiet(4) <= 2 * 10
