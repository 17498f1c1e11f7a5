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

from preflight.monitor.collect.lasting import HELD, MANY, WITHOUT_EPOCHS  # noqa: E402

pytestmark = pytest.mark.torch
Keep = Callable[[Any], None]


def held(keep: Keep, scaled: bool = False, batches: int = 40, epochs: int = 4, loader: bool = True) -> list[int]:
    """What the passes of a training tell of graphs that are held; the program keeps of each loss what it likes."""
    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(4 * batches, 4))
    with recorded() as kept:
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        loading = torch.utils.data.DataLoader(data, 4)
        for _ in range(epochs):
            for x in loading if loader else data.tensors[0].split(4):
                loss = model(x[0]).square().mean()
                optimizer.zero_grad()
                (loss / 2 * 1024.0 if scaled else loss).backward()
                optimizer.step()
                keep(loss)
            keep(None)
    assert not kept.rows.get("trouble")
    return [call["args"][HELD] for call in kept.calls("backward") if HELD in call["args"]]


def summed() -> Keep:
    total: list[Any] = [0.0]

    def keep(loss: Any) -> None:
        total[0] = total[0] + (0.0 if loss is None else loss)

    return keep


@pytest.mark.parametrize("scaled", [False, True])
def test_a_sum_of_losses_with_their_graphs_is_told_once(scaled: bool) -> None:
    assert held(summed(), scaled) == [MANY]


def test_a_list_of_losses_is_told() -> None:
    losses: list[Any] = []
    assert held(losses.append) == [MANY]


def test_without_a_loader_many_more_are_told() -> None:
    losses: list[Any] = []
    assert held(losses.append, loader=False) == []
    assert held(losses.append, epochs=WITHOUT_EPOCHS // 40 + 1, loader=False) == [WITHOUT_EPOCHS]


def test_numbers_and_tensors_without_a_graph_are_not_told() -> None:
    losses: list[Any] = []
    assert not held(lambda loss: losses.append(loss and loss.item()))
    assert not held(lambda loss: losses.append(loss if loss is None else loss.detach()))


def test_the_last_few_losses_are_not_told() -> None:
    assert not held(deque(maxlen=10).append)


def test_a_list_that_is_emptied_after_each_epoch_is_not_told() -> None:
    losses: list[Any] = []
    assert not held(lambda loss: losses.clear() if loss is None else losses.append(loss), batches=2 * MANY)


def test_one_loss_that_is_passed_back_in_every_step_is_not_told() -> None:
    with recorded() as kept:
        weight = torch.nn.Parameter(torch.ones(3))
        loss = weight.square().sum()
        for _ in range(WITHOUT_EPOCHS + 10):
            loss.backward(retain_graph=True)
    assert not any(HELD in call["args"] for call in kept.calls("backward"))
