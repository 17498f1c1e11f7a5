"""Labels in another order than their loader gave them."""

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
data = torch.utils.data


def told(change: Callable[[Any], Any], labels: Any) -> list[tuple[str, float]]:
    """What is told of the losses of two batches whose labels were changed in this way."""
    model = torch.nn.Linear(3, 8)
    samples = data.TensorDataset(torch.randn(len(labels), 3), labels)
    with recorded(detail_first=8) as kept:
        for inputs, given in data.DataLoader(samples, len(labels) // 2):
            torch.nn.functional.cross_entropy(model(inputs), change(given)).backward()
    return [(row["name"], row["value"]) for row in kept.table("scalar") if row["name"].startswith("labels.moved")] + [
        (row["name"], row["value"]) for row in kept.table("scalar") if row["name"].startswith("labels.turned")
    ]


VARIED = torch.tensor([3, 1, 4, 1, 5, 0, 2, 6, 5, 3, 5, 7] * 2)


@pytest.mark.parametrize("change", [lambda one: one.roll(1), lambda one: one.flip(0)])
def test_labels_that_are_turned_round_are_told(change: Callable[[Any], Any]) -> None:
    assert told(change, VARIED) == [("labels.moved", 1.0)] * 2 + [("labels.turned", 1.0)] * 2


def test_another_order_is_no_turn() -> None:
    assert told(lambda one: one.sort().values, VARIED) == [("labels.moved", 1.0)] * 2 + [("labels.turned", 0.0)] * 2


def test_labels_as_they_came_and_copies_of_them_are_in_order() -> None:
    assert told(lambda one: one.clone(), VARIED) == [("labels.moved", 0.0)] * 2


def test_nothing_is_told_of_targets_that_the_program_made() -> None:
    assert told(lambda one: one % 3, VARIED) == []


def test_of_few_classes_a_turn_may_be_chance() -> None:
    assert told(lambda one: one.roll(1), torch.tensor([0, 0, 1, 1] * 2))[2:] == [("labels.turned", 0.0)] * 2


def losses(step: Callable[[Any, Any, int], Any], times: int = 2) -> list[tuple[str, float]]:
    """What is told of losses that are computed in this way, of the outputs and the labels."""
    model = torch.nn.Linear(3, 8)
    samples = data.TensorDataset(torch.randn(12 * times, 3), VARIED[:12].repeat(times))
    with recorded(detail_first=2 * times) as kept:
        for number, (inputs, given) in enumerate(data.DataLoader(samples, 12)):
            step(model(inputs), given, number).backward()
    return [(row["name"], row["value"]) for row in kept.table("scalar") if row["name"].startswith("labels.")]


def test_outputs_that_are_turned_as_the_labels_are_in_order() -> None:
    told = losses(lambda given, labels, _: torch.nn.functional.cross_entropy(given.flip(0), labels.flip(0)))
    assert told == [("labels.moved", 1.0), ("labels.turned", 0.0)] * 2


def test_a_term_that_comes_later_is_not_told_without_the_one_it_stands_beside() -> None:
    def step(given: Any, labels: Any, number: int) -> Any:
        loss = torch.nn.functional.cross_entropy(given, labels)
        if number > 9:
            loss = loss - torch.nn.functional.cross_entropy(given, labels.roll(1))
        return loss

    assert losses(step, 14) == [("labels.moved", 0.0)] * 8
