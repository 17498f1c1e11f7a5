"""What the recorder tells of the labels of losses that take signs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

pytestmark = pytest.mark.torch


def shares(loss: Any, *given: Any) -> list[tuple[str, float]]:
    with recorded() as kept:
        loss(*given).backward()
    rows = [row for row in kept.table("scalar") if row["name"] == "labels.unsigned"]
    return [(row["object"].rpartition("#")[2], row["value"]) for row in rows]


@pytest.mark.parametrize(("labels", "share"), [([1, -1, 1, -1], 0.0), ([1, 0, 1, 0], 0.5)])
def test_a_loss_that_takes_signs_tells_how_many_labels_are_none(labels: list[int], share: float) -> None:
    one, other = torch.randn(4, 3, requires_grad=True), torch.randn(4, 3)
    told = shares(torch.nn.CosineEmbeddingLoss(), one, other, torch.tensor(labels))
    assert told == [("cosine_embedding_loss", share)]
    first = one.sum(1)
    assert shares(torch.nn.SoftMarginLoss(), first, torch.tensor(labels).float()) == [("soft_margin_loss", share)]
    assert shares(torch.nn.MarginRankingLoss(), first, other.sum(1), torch.tensor(labels)) == [
        ("margin_ranking_loss", share)
    ]


def test_the_loss_is_the_same() -> None:
    one, other, labels = torch.randn(4, 3, requires_grad=True), torch.randn(4, 3), torch.tensor([1, -1, 0, 1])
    plain = torch.nn.functional.cosine_embedding_loss(one, other, labels)
    with recorded():
        assert torch.equal(torch.nn.functional.cosine_embedding_loss(one, other, labels), plain)
