"""How targets lie to inputs and what attention lets through is read off the graph of a loss, and changes nothing in it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from torch.nn import functional  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402
from sequence_models import AHEAD, IDS, LENGTH, VOCAB, Model, longer, next_token, numbers  # noqa: E402

from preflight.monitor.collect.graph import Attention, Graph  # noqa: E402
from preflight.monitor.collect.sequences import NAMES, Sequences  # noqa: E402
from preflight.monitor.collect.unpacking import saved_tensors_tell  # noqa: E402


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


@pytest.mark.parametrize("ignored", [-100, 0])
def test_padding_that_is_learnt_is_told_where_positions_come_before_samples(ignored: int) -> None:
    lengths = torch.tensor([12, 9, 7, 4, 5, 6, 3, 8, 10])[:, None]
    some = torch.randint(1, VOCAB, (9, LENGTH), generator=torch.Generator().manual_seed(3))
    ids = (some * (torch.arange(LENGTH) < lengths)).T
    scores = Model("none")(ids[:-1])
    loss = functional.cross_entropy(scores.flatten(0, 1), ids[1:].flatten(), ignore_index=ignored)
    assert numbers(loss)["learnt"] == (ignored != 0)
    whole = some.T
    same = functional.cross_entropy(Model("none")(whole[:-1]).flatten(0, 1), whole[1:].flatten())
    assert numbers(same)["learnt"] == -1


def test_nothing_of_the_graph_is_used_up_and_hooks_on_it_are_left_alone() -> None:
    model = Model("causal")
    loss = next_token(model, IDS)
    numbers(loss)
    loss.backward()
    assert model.embed.weight.grad is not None
    watching = Sequences(torch)

    def inside(ids: Any) -> Any:
        watching.hooks.look()
        return model(ids)

    if not saved_tensors_tell():
        return
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

    if not saved_tensors_tell():
        return
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
