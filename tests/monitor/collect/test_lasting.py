"""Losses whose graphs are kept for the rest of the training are told; those that are let go, in whatever way, are not."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

from preflight.monitor.collect.lasting import HELD, MANY  # noqa: E402

pytestmark = pytest.mark.torch
Keep = Callable[[Any], None]


def held(keep: Keep, scaled: bool = False, steps: int = 2 * MANY + 10) -> list[int]:
    """What the passes of a training tell of graphs that are held; the program keeps of each loss what it likes."""
    torch.manual_seed(0)
    with recorded() as kept:
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(steps):
            loss = model(torch.randn(8, 4)).square().mean()
            optimizer.zero_grad()
            (loss / 2 * 1024.0 if scaled else loss).backward()
            optimizer.step()
            keep(loss)
    assert not kept.rows.get("trouble")
    return [call["args"][HELD] for call in kept.calls("backward") if HELD in call["args"]]


def summed() -> Keep:
    total: list[Any] = [0.0]

    def keep(loss: Any) -> None:
        total[0] = total[0] + loss

    return keep


@pytest.mark.parametrize("scaled", [False, True])
def test_a_sum_of_losses_with_their_graphs_is_told_once(scaled: bool) -> None:
    assert held(summed(), scaled) == [MANY]


def test_a_list_of_losses_is_told() -> None:
    losses: list[Any] = []
    assert held(losses.append) == [MANY]


def test_numbers_and_tensors_without_a_graph_are_not_told() -> None:
    losses: list[Any] = []
    assert not held(lambda loss: losses.append(loss.item()))
    assert not held(lambda loss: losses.append(loss.detach()))


def test_the_last_few_losses_are_not_told() -> None:
    assert not held(deque(maxlen=10).append)


def test_a_list_that_is_emptied_now_and_then_is_not_told() -> None:
    losses: list[Any] = []

    def keep(loss: Any) -> None:
        losses.append(loss)
        if len(losses) == MANY - 10:
            losses.clear()

    assert not held(keep)


def test_one_loss_that_is_passed_back_in_every_step_is_not_told() -> None:
    with recorded() as kept:
        weight = torch.nn.Parameter(torch.ones(3))
        loss = weight.square().sum()
        for _ in range(2 * MANY + 10):
            loss.backward(retain_graph=True)
    assert not any(HELD in call["args"] for call in kept.calls("backward"))
