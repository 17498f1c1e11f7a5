"""What the recorder tells of tensors that are read in another shape."""

from __future__ import annotations

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


class Between(nn.Module):  # type: ignore[misc, name-defined]
    """A layer, a way to read what it gives, and another layer."""

    def __init__(self, first: Any, read: Callable[[Any], Any], last: Any) -> None:
        super().__init__()
        self.first, self.read, self.last = first, read, last

    def forward(self, x: Any) -> Any:
        made = self.first(x)
        return self.last(self.read(made[1] if isinstance(made, tuple) else made))


def told(run: Callable[[], Any], **settings: Any) -> list[tuple[str, float]]:
    with recorded(**settings) as kept:
        run().sum().backward()
    rows = [row for row in kept.table("scalar") if row["name"] == "views.torn"]
    return [(row["object"].split("#", 1)[1], row["value"]) for row in rows]


def states(read: Callable[[Any], Any], width: int = 12) -> list[tuple[str, float]]:
    model = Between(nn.GRU(3, 6, batch_first=True, bidirectional=True), read, nn.Linear(width, 2))
    return told(lambda: model(torch.randn(5, 4, 3)))


def pixels(read: Callable[[Any], Any], width: int = 6) -> list[tuple[str, float]]:
    model = Between(nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU()), read, nn.Linear(width, 2))
    return told(lambda: model(torch.randn(5, 3, 4, 4)))


def test_states_of_two_directions_are_torn_apart_by_a_view_of_each_sample() -> None:
    assert states(lambda h: h.view(5, -1)) == [("samples#2x5x6#5x12", 1.0)]
    assert states(lambda h: h.transpose(0, 1).reshape(5, -1)) == []
    assert states(lambda h: h.view(10, 6), width=6) == [("samples#2x5x6#10x6", 0.0)]


def test_channels_are_torn_apart_by_a_view_that_puts_them_last() -> None:
    assert pixels(lambda x: x.view(5, 4, 6)) == [("channels#5x6x2x2#5x4x6", 1.0)]
    assert pixels(lambda x: x.flatten(2).transpose(1, 2)) == []
    assert pixels(lambda x: x.view(5, 6, 4), width=4) == [("channels#5x6x2x2#5x6x4", 0.0)]
    assert pixels(lambda x: x.view(5, -1), width=24) == []


def test_samples_are_torn_apart_where_columns_are_turned_round() -> None:
    assert pixels(lambda x: x.view(-1, 5).t(), width=24) == [("rows#5x6x2x2#5x24", 1.0)]
    assert pixels(lambda x: x.flatten(1).view(-1, 5).T, width=24) == [("rows#5x6x2x2#5x24", 1.0)]
    assert pixels(lambda x: x.flatten(1).t().contiguous().t(), width=24) == []
    assert pixels(lambda x: x.movedim(0, -1).contiguous().view(-1, 5).t(), width=24) == []


@pytest.mark.parametrize(
    ("scores", "word"),
    [
        (lambda x: nn.Linear(3, 7)(x).view(5, 7, 4), [("classes#20x7#5x7x4", 1.0)]),
        (lambda x: nn.Linear(3, 7)(x).transpose(1, 2), []),
        (lambda x: nn.Linear(12, 28)(x.flatten(1)).view(5, 7, 4), []),
        (lambda x: nn.Conv1d(3, 7, 1)(x.transpose(1, 2)).reshape(-1, 7), [("channels#5x7x4#20x7", 1.0)]),
        (lambda x: nn.Conv1d(3, 7, 1)(x.transpose(1, 2)).transpose(1, 2).reshape(-1, 7), []),
    ],
    ids=["view", "transposed", "laid so by the layer", "rows", "rows of each place"],
)
def test_classes_of_a_loss(scores: Callable[[Any], Any], word: list[tuple[str, float]]) -> None:
    def run() -> Any:
        given = scores(torch.randn(5, 4, 3))
        targets = torch.zeros(given.shape[0], *given.shape[2:], dtype=torch.long)
        return nn.functional.cross_entropy(given, targets)

    assert told(run) == word


@pytest.mark.parametrize(
    "settings", [{"needs": ("scalar", "module", "forward")}, {"detail_first": 0, "detail_every": 0}]
)
def test_nothing_is_told_where_it_is_not_wanted_or_not_looked_at(settings: dict[str, Any]) -> None:
    model = Between(nn.GRU(3, 6, bidirectional=True, batch_first=True), lambda h: h.view(5, -1), nn.Linear(12, 2))
    assert told(lambda: model(torch.randn(5, 4, 3)), **settings) == []


def sequences(read: Callable[[Any], Any], **settings: Any) -> list[tuple[str, float]]:
    model = Between(nn.Identity(), read, nn.GRU(3, 6, **settings))
    given = torch.randn(20, 4, 3)
    return [
        *told(lambda: model(torch.randn(5, 4, 3))[0]),
        *told(lambda: model(given[5:10])[0]),
        *told(lambda: Between(nn.Embedding(9, 3), read, nn.GRU(3, 6, **settings))(torch.randint(9, (5, 4)))[0]),
    ]


def test_steps_and_samples_that_change_their_sizes_alone_are_torn_apart() -> None:
    assert sequences(lambda x: x.reshape(4, 5, 3)) == [("steps#5x4x3#4x5x3", 1.0)] * 3
    assert sequences(lambda x: x.reshape(4, 5, 3), batch_first=True) == [("steps#5x4x3#4x5x3", 1.0)] * 3
    for read in (lambda x: x.transpose(0, 1), lambda x: x.transpose(0, 1).contiguous(), lambda x: x.view(10, 2, 3)):
        assert sequences(read) == []
    assert sequences(lambda x: x.contiguous(), batch_first=True) == []


def attended(cut: Callable[[Any], Any], written: bool, length: int = 5) -> list[tuple[str, float]]:
    layer = nn.Linear(8, 24)

    def run() -> Any:
        query, key, value = (cut(one) for one in layer(torch.randn(3, length, 8)).chunk(3, -1))
        if not written:
            return nn.functional.scaled_dot_product_attention(query, key, value)
        return (query * 0.7 @ key.transpose(-2, -1)).softmax(-1) @ value

    return told(run)


@pytest.mark.parametrize("written", [False, True], ids=["fused", "written out"])
def test_positions_are_torn_apart_by_heads_that_are_cut_across_them(written: bool) -> None:
    assert attended(lambda x: x.reshape(3, 2, 5, 4), written) == [("heads#3x5x8#3x2x5x4", 1.0)]
    assert attended(lambda x: x.reshape(3, 5, 2, 4).transpose(1, 2), written) == [("heads#3x5x8#3x5x2x4", 0.0)]
    assert attended(lambda x: x.reshape(3, 5, 2, 4).permute(0, 2, 1, 3), written) == []
    assert attended(lambda x: x.reshape(3, 2, 2, 4), written, length=2) == []  # as many heads as positions
    assert attended(lambda x: x.reshape(3, 2, 1, 4), written, length=1) == []
    assert attended(lambda x: x, written) == []
