"""Batches of a single label are told as long as a loader gave no other."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

pytestmark = pytest.mark.torch
data = torch.utils.data


def single(labels: list[int], word: str = "single") -> list[Any]:
    """The label that each batch of four is told to hold alone, where the first iteration is recorded in detail."""
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    samples = data.TensorDataset(torch.randn(len(labels), 3), torch.tensor(labels))
    with recorded(detail_first=1, detail_every=0) as kept:
        for inputs, _ in data.DataLoader(samples, 4):
            optimizer.zero_grad()
            model(inputs).square().sum().backward()
            optimizer.step()
    told = [(row["result"] or {}).get(word, {}) for row in kept.calls("fetch") if row["error"] is None]
    return [one.get("1") for one in told]


def test_labels_are_looked_at_outside_of_detailed_iterations_until_a_batch_mixes_them() -> None:
    assert single([0] * 8 + [1] * 8 + [0, 1] * 2 + [1] * 4) == [0, 0, 1, 1, None, None]


def test_a_loader_that_mixes_them_from_the_start_is_not_looked_at() -> None:
    assert single([0, 1] * 2 + [1] * 8) == [None] * 3


def test_labels_that_lie_class_after_class_are_told_with_the_first_and_the_last_one() -> None:
    labels = [0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 3, 3, 3, 3]
    assert single(labels, "rising") == [[0, 1], [1, 2], None, None, None]
    assert single([0, 0, 2, 2], "rising") == [None]  # one is left out
    assert single([0, 1, 2, 3], "rising") == [None]  # numbers of samples
