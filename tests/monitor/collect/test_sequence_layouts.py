"""Inputs that reach their own position, positions that are lost or counted wrongly, and scores in another order than their targets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
from sequence_models import DIM, IDS, LENGTH, VOCAB, Model, numbers  # noqa: E402

from preflight.monitor.collect.sequences import NAMES, Sequences  # noqa: E402


class Recurrent(nn.Module):
    """Tokens through a recurrent layer, and what it says at each position."""

    def __init__(self, kind: type[nn.RNNBase], both: bool = False, layers: int = 1) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.layer = kind(DIM, DIM, layers, batch_first=True, bidirectional=both)
        self.again = nn.GRU(DIM, DIM, batch_first=True)
        self.head = nn.Linear(2 * DIM if both else DIM, VOCAB)

    def forward(self, ids: Any) -> Any:
        return self.head(self.layer(self.embed(ids))[0])

    def summed_up(self, ids: Any) -> Any:
        """Told again from the last state alone, as an autoencoder does."""
        state = self.layer(self.embed(ids))[1]
        last = (state[0] if isinstance(state, tuple) else state)[-1]
        return self.head(self.again(last[:, None].expand(-1, LENGTH, -1))[0])


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM, nn.RNN])
def test_a_recurrent_layer_that_reads_the_token_it_is_to_tell_is_told(kind: type[nn.RNNBase]) -> None:
    def told(scores: Any, goal: Any) -> tuple[float, float, float]:
        found = numbers(functional.cross_entropy(scores.flatten(0, 1), goal.flatten()))
        return found["same"], found["straight"], found["forward"]

    model = Recurrent(kind, layers=2)
    assert told(model(IDS), IDS) == (1, 1, 1)
    assert told(model.summed_up(IDS), IDS) == (1, 0, 0)
    assert told(Recurrent(kind, both=True)(IDS), IDS) == (1, 0, 0)
    assert told(Model("causal")(IDS), IDS) == (1, 1, 0)


def test_inputs_that_a_model_moves_by_itself_do_not_reach_their_own_position() -> None:
    model = Model("causal")
    rows = functional.embedding(IDS, model.embed.weight)
    hidden = torch.cat([torch.zeros(len(IDS), 1, DIM), rows[:, :-1]], 1)
    query, key, value = model.qkv(hidden).view(len(IDS), LENGTH, 3, 2, -1).permute(2, 0, 3, 1, 4)
    mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    scores = model.head(mixed.transpose(1, 2).reshape(hidden.shape) + hidden)
    told = numbers(functional.cross_entropy(scores.flatten(0, 1), IDS.flatten()))
    assert (told["same"], told["straight"]) == (1, 0)


def test_inputs_that_are_written_one_place_on_do_not_reach_their_own_position() -> None:
    model = Recurrent(nn.GRU)
    moved = torch.zeros(len(IDS), LENGTH, DIM)
    moved[:, 1:] = model.embed(IDS)[:, :-1]
    told = numbers(functional.cross_entropy(model.head(model.layer(moved)[0]).flatten(0, 1), IDS.flatten()))
    assert (told["same"], told["straight"]) == (1, 0)


def test_targets_that_are_picked_out_of_the_inputs_are_told() -> None:
    ids = IDS.repeat(4, 1)
    chosen = torch.rand(ids.shape, generator=torch.Generator().manual_seed(2)) < 0.25
    hidden = ids.masked_fill(chosen, VOCAB - 1)
    for given, labels, share in ((hidden, hidden, 1.0), (hidden, ids, 0.0)):
        labels = labels.masked_fill(~chosen, -100)
        told = numbers(functional.cross_entropy(Model("none")(given).transpose(1, 2), labels))
        assert told["picked"] == pytest.approx(share, abs=0.1)
    behind = IDS.masked_fill(torch.arange(LENGTH) < 6, -100)  # an answer in one piece
    assert numbers(functional.cross_entropy(Model("none")(IDS).transpose(1, 2), behind))["picked"] < 0


def test_positions_that_are_counted_along_the_samples_are_told() -> None:
    tokens, places = nn.Embedding(VOCAB, DIM), nn.Embedding(32, DIM)

    def crossed(numbers_of_rows: Any) -> float:
        rows = places(numbers_of_rows)
        hidden = tokens(IDS) + (rows if rows.dim() == 3 else rows[:, None])
        scores = functional.linear(hidden, tokens.weight)
        return numbers(functional.cross_entropy(scores[:, :-1].flatten(0, 1), IDS[:, 1:].flatten()))["crossed"]

    assert crossed(torch.arange(len(IDS))[:, None]) == 1
    assert crossed(torch.arange(len(IDS))) == 1
    assert crossed(torch.tensor([3, 1, 4, 1, 5, 2])) == 0  # of each sample something of its own
    assert crossed(torch.arange(LENGTH)[None]) < 0


@pytest.mark.parametrize("over_tokens", [True, False])
def test_positions_that_are_all_zero_are_told(over_tokens: bool) -> None:
    tokens, places, kinds = nn.Embedding(VOCAB, DIM), nn.Embedding(32, DIM), nn.Embedding(2, DIM)
    learnt = nn.Parameter(torch.randn(LENGTH, DIM))

    def row(rows: Any, more: Any = None, table: nn.Embedding = places) -> float:
        hidden = tokens(IDS) + table(rows)
        hidden = hidden if more is None else functional.dropout(hidden, 0.1) + more
        hidden = hidden + functional.linear(hidden, torch.eye(DIM))
        loss = hidden.mean() if not over_tokens else functional.cross_entropy(hidden.flatten(0, 1), IDS.flatten() % DIM)
        found = Sequences(torch).of("here", loss)
        values = found.values() if found is not None else None
        return -1.0 if not values else dict(zip(NAMES, values[0], strict=True))["row"]

    usual = row(torch.zeros(LENGTH, dtype=torch.long), table=kinds)  # as many kinds of positions as the table has rows
    assert row(torch.zeros(LENGTH, dtype=torch.long)) == 1
    assert row(torch.zeros(1, LENGTH, dtype=torch.long)) == 1
    assert row(torch.arange(LENGTH)) == 0
    assert row(torch.full((LENGTH,), 3)) == 0  # of a language, or of a task
    assert usual < 1
    assert row(torch.zeros(LENGTH, dtype=torch.long), learnt[:LENGTH]) == usual
    assert row(torch.zeros(LENGTH, dtype=torch.long), torch.randn(LENGTH, DIM)) == usual
    assert row(torch.zeros(LENGTH, dtype=torch.long), places(torch.arange(LENGTH))) == usual


def test_scores_that_lie_in_another_order_than_their_targets_are_told() -> None:
    embed, layer, head = nn.Embedding(VOCAB, DIM), nn.LSTM(DIM, DIM), nn.Linear(DIM, VOCAB)
    scores = head(layer(embed(IDS[:, :-1]).transpose(0, 1))[0])  # positions first
    goal = IDS[:, 1:]

    def turned(scores: Any, goal: Any) -> tuple[float, float]:
        told = numbers(functional.cross_entropy(scores, goal))
        return told["next"], told["turned"]

    assert turned(scores.flatten(0, 1), goal.flatten()) == (1, 1)
    assert turned(scores.transpose(0, 1).flatten(0, 1), goal.flatten()) == (1, 0)
    assert turned(scores.transpose(-2, -3).flatten(0, 1), goal.flatten())[0] == 1
    assert turned(scores.permute(1, 2, 0), goal) == (1, 0)
    assert turned(scores.flatten(0, 1), goal.T.flatten())[0] < 0.5
    for first in (True, False):  # packed, from samples first and from positions first
        rows = embed(IDS[:, :-1]) if first else embed(IDS[:, :-1]).transpose(0, 1)
        packed = nn.utils.rnn.pack_padded_sequence(rows, torch.full((len(IDS),), LENGTH - 1), batch_first=first)
        ran = layer(packed)[0]
        one = "RnnLayer" in ran.data.grad_fn.next_functions[0][0].name()  # an older torch computes it step by step
        scores, _ = nn.utils.rnn.pad_packed_sequence(ran, batch_first=True)
        assert turned(head(scores).flatten(0, 1), goal.flatten()) == (1, 0)
        assert turned(head(scores.transpose(0, 1)).flatten(0, 1), goal.flatten()) == (1, int(one))
    laid = embed(IDS[:, :-1]).unsqueeze(0).transpose(0, 1).squeeze(1)  # samples stay samples
    assert turned(head(laid).flatten(0, 1), goal.flatten()) == (1, 0)
    straight = Recurrent(nn.LSTM)
    assert turned(straight(IDS[:, :-1]).flatten(0, 1), goal.flatten()) == (1, 0)
    assert turned(Model("by hand")(IDS[:, :-1]).flatten(0, 1), goal.flatten()) == (1, 0)


@pytest.mark.parametrize("both", [False, True])
def test_scores_of_other_targets_that_lie_in_another_order_are_told(both: bool) -> None:
    embed, layer = nn.Embedding(VOCAB, DIM), nn.LSTM(DIM, DIM, bidirectional=both)
    head = nn.Linear(2 * DIM if both else DIM, 3)
    said = head(layer(embed(IDS).transpose(0, 1))[0])  # positions first
    tags = IDS % 3

    def jumbled(scores: Any, goal: Any) -> float:
        return numbers(functional.cross_entropy(scores, goal))["jumbled"]

    assert jumbled(said.reshape(*IDS.shape, 3).flatten(0, 1), tags.flatten()) == 1
    assert jumbled(said.flatten(0, 1), tags.view(-1)) == 1
    assert jumbled(said.transpose(0, 1).flatten(0, 1), tags.flatten()) == 0
    assert jumbled(said.flatten(0, 1), tags.T.flatten()) < 0  # both lie positions first
    assert jumbled(said.flatten(0, 1), tags.T.contiguous().view(-1)) < 0
    assert jumbled(said.flatten(0, 1), tags.flatten().clone()) < 0  # whose order is not known
    even = IDS.view(8, 9)[:, :8]
    said = head(layer(embed(even).transpose(0, 1))[0])
    assert jumbled(said.flatten(0, 1), (even % 3).flatten()) < 0  # as many samples as positions


def test_targets_that_lie_in_another_order_than_their_scores_are_told() -> None:
    embed, layer, head = nn.Embedding(VOCAB, DIM), nn.Linear(DIM, DIM), nn.Linear(DIM, VOCAB)
    goal = IDS[:, 1:]

    def swapped(rows: Any, goal: Any) -> float:
        return numbers(functional.cross_entropy(head(rows).flatten(0, 1), goal.flatten()))["swapped"]

    rows = layer(embed(IDS[:, :-1]))
    assert swapped(rows, goal.T) == 1
    assert swapped(rows, goal) < 0
    assert swapped(layer(embed(IDS[:, :-1]).transpose(0, 1)).transpose(1, 0), goal.T) == 1
    assert swapped(rows.transpose(0, 1), goal.T) < 0  # both lie positions first
    assert swapped(rows.transpose(-3, -2), goal.T) < 0
    assert swapped(torch.stack(rows.unbind(1)), goal.T) < 0
    assert swapped(rows.permute(1, 0, 2), goal.T) < 0
    assert swapped(torch.cat([one[None] for one in rows.unbind(1)]), goal.T) < 0
    assert swapped(torch.einsum("btd,de->tbe", rows, torch.eye(DIM)), goal.T) < 0
    turned = checkpoint(lambda given: given.transpose(0, 1), rows, use_reentrant=True)  # what is done in it is not seen
    assert swapped(turned, goal.T) < 0
    assert swapped(nn.LSTM(DIM, DIM)(rows.transpose(0, 1))[0], goal.T) < 0
    for recurrent in (nn.LSTM(DIM, DIM, 2, batch_first=True), nn.RNN(DIM, DIM, batch_first=True)):  # fused, written out
        said = recurrent(rows)[0]
        assert swapped(said, goal.T) == 1
        assert swapped(said, goal) < 0
        assert swapped(said.transpose(0, 1), goal.T) < 0
        assert swapped(said + rows, goal.T) == 1
        assert swapped(said + torch.stack(rows.unbind(1), 1), goal.T) == 1
    cell, steps = nn.GRUCell(DIM, DIM), []
    for row in rows.unbind(1):  # a loop of the program's own
        steps.append(cell(row, *steps[-1:]))
    assert swapped(torch.stack(steps, 1), goal.T) == 1
    assert swapped(torch.stack(steps, 1), goal) < 0
    assert swapped(torch.stack(steps), goal.T) < 0  # both lie positions first
    assert swapped(torch.stack(steps, -2), goal.T) < 0  # not told on which axis that is
