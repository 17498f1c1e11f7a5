"""How targets lie to inputs and what attention lets through is read off the graph of a loss, and changes nothing in it."""

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
from torch.utils.checkpoint import checkpoint  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

from preflight.monitor.collect.graph import Attention, Graph  # noqa: E402
from preflight.monitor.collect.sequences import NAMES, Sequences  # noqa: E402

VOCAB, LENGTH, DIM = 64, 12, 16


def numbers(loss: Any) -> dict[str, float]:
    """What is told of the first table of the loss."""
    found = Sequences(torch).of("here", loss)
    assert found is not None
    values = found.values()
    assert values is not None
    return dict(zip(NAMES, values[0], strict=True))


class Model(nn.Module):
    """One attention, of the kind that is asked for, over tokens."""

    def __init__(self, kind: str, padding: int | None = None) -> None:
        super().__init__()
        self.kind = kind
        self.embed = nn.Embedding(VOCAB, DIM, padding_idx=padding)
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.head = nn.Linear(DIM, VOCAB)

    def forward(self, ids: Any, mask: Any = None) -> Any:
        hidden = self.embed(ids)
        parts = self.qkv(hidden).view(*ids.shape, 3, 2, -1).permute(2, 0, 3, 1, 4)
        query, key, value = parts
        if self.kind == "by hand":
            scores = query @ key.transpose(-1, -2) / 4
            scores = scores.masked_fill(mask, float("-inf")) if mask is not None else scores
            mixed = scores.softmax(-1) @ value
        else:
            causal = self.kind == "causal"
            mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
        return self.head(mixed.transpose(1, 2).reshape(*ids.shape, DIM) + hidden)


def longer(model: Model, ids: Any) -> Any:
    """The scores where the table's rows have others before them."""
    rows = functional.embedding(ids, model.embed.weight)
    hidden = torch.cat([torch.zeros(len(ids), 3, DIM), rows], 1)
    query, key, value = model.qkv(hidden).view(len(ids), -1, 3, 2, DIM // 2).permute(2, 0, 3, 1, 4)
    mixed = functional.scaled_dot_product_attention(query, key, value)
    return model.head(mixed.transpose(1, 2).reshape(hidden.shape) + hidden)


def next_token(model: Model, ids: Any, moved: int = 1, mask: Any = None) -> Any:
    scores = model(ids, mask)
    return functional.cross_entropy(scores[:, : LENGTH - moved].flatten(0, 1), ids[:, moved:].flatten())


IDS = torch.randint(0, VOCAB, (6, LENGTH), generator=torch.Generator().manual_seed(1))
AHEAD = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)


def test_a_mask_is_seen_however_it_is_made() -> None:
    assert numbers(next_token(Model("causal"), IDS))["future"] == 0
    assert numbers(next_token(Model("none"), IDS))["future"] == 1
    assert numbers(next_token(Model("given"), IDS, mask=~AHEAD))["future"] == 0
    assert numbers(next_token(Model("given"), IDS, mask=AHEAD.float() * -1e9))["future"] == 0
    assert numbers(next_token(Model("given"), IDS, mask=torch.zeros(LENGTH, LENGTH)))["future"] == 1
    assert numbers(next_token(Model("by hand"), IDS, mask=AHEAD))["future"] == 0
    assert numbers(next_token(Model("by hand"), IDS))["future"] == 1


def test_a_mask_is_seen_where_the_tokens_lie_across_and_where_attention_drops() -> None:
    class Across(Model):
        def forward(self, ids: Any, mask: Any = None) -> Any:
            hidden = self.embed(ids).transpose(0, 1)
            query, key, value = self.qkv(hidden).view(*hidden.shape[:2], 3, 2, -1).permute(2, 0, 3, 1, 4)
            causal = self.kind == "causal"
            mixed = functional.scaled_dot_product_attention(query, key, value, dropout_p=0.1, is_causal=causal)
            return self.head((mixed.transpose(1, 2).reshape(hidden.shape) + hidden).transpose(0, 1))

    ids = torch.cat([IDS, IDS.flip(0)]).T  # rows are positions, as the tables of some models have them
    for kind, share in (("causal", 0), ("none", 1)):
        loss = functional.cross_entropy(Across(kind)(ids)[:-1].flatten(0, 1), ids[1:].flatten())
        assert numbers(loss)["future"] == share


def test_targets_are_found_at_their_distance() -> None:
    model = Model("causal")
    for moved, name in enumerate(("same", "next", "second")):
        told = numbers(next_token(model, IDS, moved))
        assert told[name] == 1
        assert all(told[other] < 0.5 for other in ("same", "next", "second") if other != name)
    labels = functional.pad(IDS, (0, 1), value=-100)[:, 1:]  # moved, and filled up again
    assert numbers(functional.cross_entropy(model(IDS).transpose(1, 2), labels))["next"] == 1
    across = functional.cross_entropy(model(IDS)[:, :-1].transpose(0, 1).flatten(0, 1), IDS.T[1:].flatten())
    assert numbers(across)["next"] < 0.5  # the table is read along the sequences, the loss across them


def test_padding_that_is_seen_or_learnt_is_told() -> None:
    lengths = torch.tensor([12, 9, 7, 4, 5, 6])[:, None]
    real = torch.arange(LENGTH) < lengths
    ids = (IDS % (VOCAB - 1) + 1) * real
    masked = ids.masked_fill(~real, -100)
    model = Model("given", padding=0)
    hidden = real[:, None, None].expand(6, 1, LENGTH, LENGTH)
    for mask, share in ((hidden, 0), (torch.ones_like(hidden), 1)):
        told = numbers(functional.cross_entropy(model(ids, mask).transpose(1, 2), masked))
        assert told["attended"] == share
        assert told["learnt"] == 0
    assert numbers(next_token(Model("causal", padding=0), ids))["learnt"] == 1
    assert numbers(next_token(Model("causal"), ids))["learnt"] == 1  # no other number fills the ends
    assert numbers(next_token(Model("causal"), IDS))["learnt"] == -1
    filled = functional.pad(ids, (0, 1), value=-100)[:, 1:]  # labels that are moved within the model
    assert numbers(functional.cross_entropy(Model("causal", padding=0)(ids).transpose(1, 2), filled))["learnt"] == 1


def test_nothing_of_the_graph_is_used_up_and_hooks_on_it_are_left_alone() -> None:
    model = Model("causal")
    loss = next_token(model, IDS)
    numbers(loss)
    loss.backward()
    assert model.embed.weight.grad is not None
    watching = Sequences(torch)

    def inside(ids: Any) -> Any:
        watching.hooked()
        return model(ids)

    scores = checkpoint(inside, IDS, use_reentrant=False)
    assert watching.of("here", functional.cross_entropy(scores[:, :-1].flatten(0, 1), IDS[:, 1:].flatten())) is None


def test_a_loss_that_is_computed_anew_in_the_backward_pass_is_not_computed_for_a_look() -> None:
    model, passes = Model("causal"), []

    def part(hidden: Any, goal: Any) -> Any:
        passes.append(torch._C._current_graph_task_id() < 0)
        return functional.cross_entropy(hidden, goal)

    with recorded() as kept:
        scores = model(IDS)  # nothing is hooked here; nor is a module called in what follows
        chunks = zip(scores[:, :-1].chunk(3), IDS[:, 1:].chunk(3), strict=True)
        losses = [checkpoint(part, one.flatten(0, 1), goal.flatten(), use_reentrant=False) for one, goal in chunks]
        torch.stack(losses).mean().backward()
    assert passes == [True] * 3 + [False] * 3  # each once, and once more by the backward pass itself
    assert not kept.table("trouble")
    assert not [row for row in kept.table("scalar") if row["name"].startswith("tokens.")]

    passes.clear()
    loss = checkpoint(part, model(IDS)[:, :-1].flatten(0, 1), IDS[:, 1:].flatten(), use_reentrant=False)
    Sequences(torch).of("here", loss)  # it was not there when the hooks were set
    assert passes == [True]


def test_attention_over_other_positions_or_with_a_mask_that_cannot_be_read_is_not_judged() -> None:
    model = Model("none")
    scores = longer(model, IDS)
    loss = functional.cross_entropy(scores[:, 3:-1].flatten(0, 1), IDS[:, 1:].flatten())
    told = numbers(loss)
    assert told["next"] == 1
    assert told["future"] == -1
    graph = Graph(next_token(Model("given"), IDS, mask=~AHEAD).grad_fn)
    place = next(place for place, name in enumerate(graph.names) if name.startswith("ScaledDotProduct"))
    graph.look = lambda place, word: (None, True)  # type: ignore[method-assign]
    assert Attention(graph, place).ahead(torch, IDS) is None


def test_one_row_is_told_of_positions_that_are_lost_and_not_of_masked_tokens() -> None:
    model = Model("none")
    masked = torch.rand(IDS.shape, generator=torch.Generator().manual_seed(2)) < 0.4
    for mask in (0, 5):
        labels = IDS.masked_fill(~masked, -100)
        scores = model(IDS.masked_fill(masked, mask))
        assert numbers(functional.cross_entropy(scores.transpose(1, 2), labels))["row"] == 0
    first = torch.arange(LENGTH) < 4  # what is given; the rest is to be told
    labels = IDS.masked_fill(first, -100)
    for positions, row in ((torch.arange(LENGTH) * first, 1), (torch.arange(LENGTH) * ~first, 0)):
        loss = functional.cross_entropy(model(positions.expand(6, -1)).transpose(1, 2), labels)
        assert numbers(loss)["row"] == row


def test_a_mask_that_hides_no_padding_is_seen_where_the_loss_is_over_texts() -> None:
    ids = torch.randint(2, VOCAB, (6, LENGTH))
    for text in range(6):
        ids[text, LENGTH - 2 * text :] = 1 if text else ids[text, LENGTH:]
    hidden = (ids == 1)[:, None, None]

    def attended(kind: str, mask: Any) -> float | None:
        told = Sequences(torch).of("here", functional.binary_cross_entropy_with_logits(
            Model(kind)(ids, mask).mean((1, 2)), torch.zeros(6)
        ))  # fmt: skip
        values = told.values() if told is not None else None
        return dict(zip(NAMES, values[0], strict=True))["attended"] if values is not None else None

    nothing = torch.zeros_like(hidden)
    for kind, right, wrong in (("by hand", hidden, nothing), ("fused", ~hidden, ~nothing)):
        assert attended(kind, right.expand(6, 1, LENGTH, LENGTH)) == 0
        assert attended(kind, wrong.expand(6, 1, LENGTH, LENGTH)) == 1
        assert attended(kind, None) in (None, -1)


@pytest.mark.parametrize("picked", [False, True])
def test_padding_whose_losses_are_multiplied_with_nought_is_not_learnt(picked: bool) -> None:
    ids = torch.randint(2, VOCAB, (6, LENGTH))
    for text in range(6):
        ids[text, LENGTH - 2 * text :] = 1 if text else ids[text, LENGTH:]
    goal = ids[:, 1:]

    def learnt(weights: Any, cut: bool = False) -> float:
        scores = Model("causal", padding=1)(ids)[:, :-1]
        if picked:
            single = -scores.log_softmax(-1).gather(2, goal[..., None]).squeeze(-1)
        else:
            single = functional.cross_entropy(scores.flatten(0, 1), goal.flatten(), reduction="none").view(goal.shape)
        if cut:
            single = single.masked_fill(goal == 1, 0)
        return numbers((single * weights).sum() / 40)["learnt"]

    kept = (goal != 1).float()
    assert learnt(kept) == 0
    assert learnt(torch.ones_like(kept)) == learnt(1.0) == 1
    assert learnt(1.0, cut=True) == -1


def test_padding_of_the_table_is_seen_where_no_mask_is_given_and_none_multiplies_the_weights() -> None:
    ids = torch.randint(2, VOCAB, (6, LENGTH))
    for text in range(6):
        ids[text, LENGTH - 2 * text :] = 1 if text else ids[text, LENGTH:]

    def attended(scores: Any) -> float | None:
        told = Sequences(torch).of("here", functional.binary_cross_entropy_with_logits(scores, torch.zeros(6)))
        values = told.values() if told is not None else None
        return dict(zip(NAMES, values[0], strict=True))["attended"] if values is not None else None

    for kind in ("by hand", "fused"):
        assert attended(Model(kind, padding=1)(ids).mean((1, 2))) == 1
        assert attended(Model(kind, padding=0)(ids).mean((1, 2))) in (None, -1)
    assert attended(Model("causal", padding=1)(ids).mean((1, 2))) in (None, -1, 0)
    model = Model("by hand", padding=1)
    hidden = model.embed(ids)
    query, key, value = model.qkv(hidden).chunk(3, -1)
    for before in (True, False):
        seen = (ids != 1)[:, None].float().expand(6, LENGTH, LENGTH)
        scores = query @ key.transpose(1, 2)
        weights = (scores * seen).softmax(-1) if before else scores.softmax(-1) * seen
        assert attended(model.head(weights @ value).mean((1, 2))) in (None, -1)


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
        scores, _ = nn.utils.rnn.pad_packed_sequence(layer(packed)[0], batch_first=True)
        assert turned(head(scores).flatten(0, 1), goal.flatten()) == (1, 0)
        assert turned(head(scores.transpose(0, 1)).flatten(0, 1), goal.flatten()) == (1, 1)
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
