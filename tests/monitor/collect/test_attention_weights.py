"""Along which axis the weights of an attention sum to one, however it is written."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
from sequence_models import DIM, IDS, LENGTH, VOCAB, Model, next_token, numbers  # noqa: E402

from preflight.monitor.collect.sequences import NAMES, Sequences  # noqa: E402


def test_weights_of_an_attention_that_sum_to_one_elsewhere_are_told() -> None:
    class Weighed(Model):
        def __init__(self, axis: int, divided: bool = False) -> None:
            super().__init__("by hand")
            self.axis, self.divided = axis, divided

        def forward(self, ids: Any, mask: Any = None) -> Any:
            hidden = self.embed(ids)
            query, key, value = self.qkv(hidden).view(*ids.shape, 3, 2, -1).permute(2, 0, 3, 1, 4)
            weights = (query @ key.transpose(-1, -2) / 4).softmax(self.axis)
            if self.divided:
                weights = weights / weights.sum(-1, keepdim=True)
            mixed = functional.dropout(weights, 0.1) @ value
            return self.head(mixed.transpose(1, 2).reshape(*ids.shape, DIM) + hidden)

    for axis, share in ((-1, 0), (3, 0), (1, 1), (-2, 1)):
        assert numbers(next_token(Weighed(axis), IDS))["crosswise"] == share
    assert numbers(next_token(Weighed(-2, divided=True), IDS))["crosswise"] < 0
    assert numbers(next_token(Model("causal"), IDS))["crosswise"] < 0


Mix = Callable[[Any, Any, Any], Any]


@pytest.mark.parametrize(
    ("mix", "share"),
    [
        (lambda scores, value, turn: turn(scores.softmax(-1)) @ value, 1),
        (lambda scores, value, turn: turn(turn(value) @ scores.softmax(-1)), 1),
        (lambda scores, value, turn: torch.einsum("bhqk,bhqd->bhkd", scores.softmax(-1), value), 1),
        (lambda scores, value, turn: torch.einsum("bhqd,bhqk->bhkd", value, scores.softmax(-1)), 1),
        (lambda scores, value, turn: turn(turn(scores).softmax(-1)) @ value, 1),
        (lambda scores, value, turn: turn(turn(value) @ turn(scores.softmax(-1))), 0),
        (lambda scores, value, turn: torch.einsum("bhkd,bhqk->bhqd", value, scores.softmax(-1)), 0),
        (lambda scores, value, turn: turn(turn(scores).softmax(-2)) @ value, -1),
        (lambda scores, value, turn: (weights := scores.softmax(-1)) @ value + turn(weights) @ value, 0),
        (lambda scores, value, turn: turn(scores[..., :-1].softmax(-1)) @ value, -1),
    ],
)
def test_weights_that_are_turned_before_values_are_added_up_are_told(mix: Mix, share: int) -> None:
    class Turned(Model):
        def forward(self, ids: Any, mask: Any = None) -> Any:
            hidden = self.embed(ids)
            query, key, value = self.qkv(hidden).view(*ids.shape, 3, 2, -1).permute(2, 0, 3, 1, 4)
            mixed = mix(query @ key.transpose(-1, -2) / 4, value, lambda one: one.transpose(-1, -2))
            mixed = mixed.transpose(1, 2).flatten(2)
            return self.head(functional.pad(mixed, (0, 0, 0, ids.shape[1] - mixed.shape[1])) + hidden)

    assert numbers(next_token(Turned("by hand"), IDS))["crosswise"] == share


class OneByOne(nn.Module):
    """Tokens that are read in a loop, with a loss for each; ``first`` reads all of them before."""

    def __init__(self, first: bool = False) -> None:
        super().__init__()
        self.embed, self.cell, self.head = nn.Embedding(VOCAB, DIM), nn.GRUCell(DIM, DIM), nn.Linear(DIM, VOCAB)
        self.first = first

    def forward(self, ids: Any, goal: Any) -> Any:
        state = torch.zeros(len(ids), DIM)
        for column in ids.unbind(1) if self.first else ():
            state = self.cell(self.embed(column), state)
        total = torch.zeros(())
        for step in range(ids.shape[1]):
            state = self.cell(self.embed(ids[:, step]), state)
            total = total + functional.cross_entropy(self.head(state), goal[:, step])
        return total


def test_tokens_that_are_read_one_by_one_are_held_against_their_targets() -> None:
    def told(ids: Any, goal: Any, first: bool = False) -> dict[str, float] | None:
        found = Sequences(torch).of("here", OneByOne(first)(ids, goal))
        values = None if found is None else found.values()
        return None if values is None else dict(zip(NAMES, values[0], strict=True))

    read, after = IDS[:, :-1], IDS[:, 1:]
    same, moved = told(read, read), told(read, after)
    assert same is not None
    assert moved is not None
    assert (same["same"], same["straight"], same["forward"]) == (1, 1, 1)
    assert moved["next"] == 1 > moved["same"]
    assert told(read, read, first=True) is None  # it writes again what it has read
    assert told(read[:, :5], read[:, :5]) is None  # too few to tell


@pytest.mark.parametrize("length", [5, 12])
def test_attention_among_things_that_are_no_tokens_is_told_where_it_is_square(length: int) -> None:
    ask, head, given = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, 1), torch.randn(4, length, DIM)

    def told(axis: int, queries: int = length, divided: bool = False, both: bool = False) -> float | None:
        query, key, value = (one.unflatten(-1, (2, -1)).transpose(1, 2) for one in ask(given).chunk(3, -1))
        scores = query[:, :, :queries] @ key.transpose(-1, -2)
        weights = scores.softmax(axis)
        weights = weights / weights.sum(-1, keepdim=True) if divided else weights
        weights = weights * scores.softmax(-1) if both else weights
        mixed = (weights @ value).transpose(1, 2).flatten(2)
        found = Sequences(torch).of("here", functional.mse_loss(head(mixed), given[:, :queries, :1]))
        values = None if found is None else found.values()
        return None if values is None else dict(zip(NAMES, values[0], strict=True))["crosswise"]

    for axis, share in ((-1, 0), (3, 0), (1, 1), (-2, 1)):
        assert told(axis) == share
    assert told(-2, queries=length - 1) is None  # fewer queries, which compete for what they are given
    assert told(-2, divided=True) is None
    assert told(-2, both=True) is None  # both of a pair must choose each other


@pytest.mark.parametrize("heads_last", [False, True])
def test_weights_of_an_attention_that_is_written_with_einsum_are_told(heads_last: bool) -> None:
    embed, ask, head = nn.Embedding(VOCAB, DIM), nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, VOCAB)
    lies = "nlhd" if heads_last else "nhld"
    queries, keys = (lies.replace("l", one) for one in "qk")

    def told(axis: int, weigh: str = "nhqk") -> float:
        hidden = embed(IDS)
        query, key, value = (one.unflatten(-1, (2, -1)) for one in ask(hidden).chunk(3, -1))
        if not heads_last:
            query, key, value = (one.transpose(1, 2) for one in (query, key, value))
        weights = (torch.einsum(f"{queries},{keys}->nhqk", query, key) / 4).softmax(axis)
        mixed = torch.einsum(f"{weigh},{keys}->{queries}", weights, value)
        mixed = mixed if heads_last else mixed.transpose(1, 2)
        scores = head(mixed.flatten(2) + hidden)
        return numbers(functional.cross_entropy(scores.flatten(0, 1), IDS.flatten()))["crosswise"]

    for axis, share in ((-1, 0), (3, 0), (1, 1), (-2, 1)):
        assert told(axis) == share
    assert told(-2, "nhkq") < 0  # summed over what it sums to one over: laid out keys first


@pytest.mark.parametrize("laid_out", ["view", "transpose"])
def test_weights_of_a_single_query_that_are_laid_out_as_a_row_are_not_taken_for_others(laid_out: str) -> None:
    embed, ask, head = nn.Embedding(VOCAB, DIM), nn.Linear(DIM, DIM), nn.Linear(DIM, VOCAB)
    hidden = embed(IDS)
    weights = torch.bmm(ask(hidden), hidden[:, -1, :, None]).softmax(1)
    assert weights.shape == (len(IDS), LENGTH, 1)
    row = weights.view(len(IDS), 1, LENGTH) if laid_out == "view" else weights.transpose(1, 2)
    scores = head(hidden + torch.bmm(row, hidden))
    assert numbers(functional.cross_entropy(scores.flatten(0, 1), IDS.flatten()))["crosswise"] < 0
