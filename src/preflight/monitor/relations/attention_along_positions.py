"""Attention goes along positions, not along the samples of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Batch, Call, Seen, Window

_TURNS = 2
"""Changes from layer to layer between attention along positions and along samples that are meant, where a loader is seen."""


class AttentionAlongPositions(Relation):
    """An attention is given its input as it takes it: positions first, or samples first.

    Without ``batch_first=True`` the first axis of ``nn.MultiheadAttention``, and of the transformer layers that hold one,
    is the sequence and the second one the batch. Given samples first, samples see each other, and positions of one sample
    never meet. All shapes fit, and the loss falls.
    Judged are layers that take positions first, in iterations that are recorded in detail and fed by one batch of a loader
    that tells which samples it took: their number is not always the first axis of what it gives.
    Broken where the first two axes of the input are those of the batch, samples first; attention over samples on purpose
    is given other axes as a rule.
    Without a loader samples are known to come first where a model that is trained is given a table of tokens and answers
    with one line for each of its rows, as a classifier or an encoder does: these are no positions of one sequence.
    Then nothing is said where other layers attend along the positions: the two kinds may take turns. With a loader they do
    where the kind changes twice and more from layer to layer, as in a model of tables that looks at columns and at rows.
    """

    name = "attention-along-positions"
    midway = True
    needs = frozenset({"module", "tensor", "batch", "forward"})
    wakes = frozenset({"module"})
    whole = False
    priority = 7
    cause = "the layer was made without batch_first=True and is given samples first"
    advice = "make the layer with batch_first=True, or transpose its input and its output"

    def see(self, window: Window) -> Iterator[Example]:
        kinds = window.layers().get("MultiheadAttention", ())
        layers = {call.q: call for call in kinds if (call.args or {}).get("batch_first") is False}
        if not layers:
            return
        held = [one for one in window.batches if not one.loader.startswith("forward:")]
        if held:
            laid = _laid(held[0]) if len(held) == 1 and held[0].indices else set()
        else:
            laid = _answered(window) if len(layers) == len(kinds) else set()
        judged = []
        for seen in window.tensors if laid else ():
            call = layers.get(seen.call)
            if call is None or seen.position != "in0" or len(seen.shape) != 3:
                continue
            wrong = (seen.shape[0], seen.shape[1]) in laid
            if wrong or (seen.shape[1], seen.shape[0]) in laid:
                judged.append((call, seen, wrong))
        by_layer = {call.object: wrong for call, _, wrong in sorted(judged, key=lambda one: one[0].q)}
        changes = sum(one != other for one, other in pairwise(by_layer.values()))
        mixed = changes >= (_TURNS if held else 1)
        for call, seen, wrong in judged:
            if not mixed:
                yield self._example(call, seen, wrong, window)

    @staticmethod
    def _example(call: Call, seen: Seen, wrong: bool, window: Window) -> Example:
        count, length = seen.shape[0], seen.shape[1]
        return Example(
            (),
            not wrong,
            {"type": (call.args or {}).get("base") or (call.args or {}).get("type")},
            variables=(call.object,) if wrong else (),
            expected=f"{length} positions of {count} samples, positions first" if wrong else None,
            seen=f"an input of {'x'.join(map(str, seen.shape))}, of a batch of {count} samples" if wrong else None,
            call=window.pass_of(call),
            detail=f"{call.object} goes along the samples of a batch" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _fed([5, 8, 16], batch_first=False)
        yield [*_fed([5, 8, 16], batch_first=False), *_fed([5, 8, 16], batch_first=False, laid=[5, 8])]
        yield _alone([5, 8, 16], [[8, 4]])
        known = _fed([5, 8, 16], batch_first=False)
        yield [*known, *_deep([5, 8, 16], [8, 5, 16], [5, 8, 16], [8, 5, 16])]  # along columns and along rows, in turn
        yield [*known, *_alone([8, 5, 16], [[8, 5, 4]])]  # a line for each position: the axes may be meant so
        yield [*known, *_alone([8, 5, 16], [[8, 4]], also=[5, 8, 16])]
        yield [*known, *_alone([8, 5, 16], [[8, 4]], dtype="float32")]  # one series of several columns, without samples

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _fed([8, 5, 16], batch_first=False)
        yield _deep([5, 8, 16], [5, 8, 16], [8, 5, 16], [8, 5, 16])  # an encoder that is right, a decoder that is not
        yield _alone([8, 5, 16], [[8, 5, 4], [8, 4]])


def _laid(batch: Batch) -> set[tuple[int, int]]:
    """The first two axes of what a batch holds, where the first goes over its samples and the second is of another size."""
    found = set()
    for shape in batch.shapes:
        axes = [shape[0], *(one for one in shape[1:] if one > 1)] if shape else []
        if len(axes) > 1 and axes[0] == len(batch.indices or ()) and axes[1] != axes[0]:
            found.add((axes[0], axes[1]))
    return found


def _answered(window: Window) -> set[tuple[int, int]]:
    """The first two axes of what models that are trained were given, where each answers with a line for each sample."""
    passes = {call.q for call in window.named("forward") if (call.args or {}).get("training")}
    given: dict[int, Seen] = {}
    answers: dict[int, list[list[int]]] = {}
    for seen in window.tensors:
        if seen.call in passes and seen.position == "in0":
            given[seen.call] = seen
        elif seen.call in passes and seen.position.startswith("out"):
            answers.setdefault(seen.call, []).append(seen.shape)
    found = set()
    for number, one in given.items():
        samples, positions = (*one.shape, 1, 1)[:2]
        if len(one.shape) != 2 or "int" not in one.dtype or min(samples, positions) < 2 or samples == positions:
            return set()
        if any(len(row) == 2 and row[0] == samples and row[1] != positions for row in answers.get(number, ())):
            found.add((samples, positions))
    return found if len(found) == 1 and len(given) == len(passes) else set()


def _fed(shape: list[int], batch_first: bool, laid: Sequence[int] = (8, 5, 3)) -> list[Window]:
    layer = (
        "module model.attention",
        {"args": {"type": "MultiheadAttention", "training": True, "batch_first": batch_first}},
    )
    batch = ("batch", {"indices": list(range(8)), "shapes": [list(laid), [8]]})
    window = Mini({"model.attention.weight": {}}).window(
        batch,
        ("forward model", {"inside": [layer]}),
        ("tensor", {"object": "model.attention", "position": "in0", "shape": shape}),
    )
    number = window.named("module")[0].q
    window.tensors = [one._replace(call=number) for one in window.tensors]
    return [window]


def _deep(*shapes: list[int]) -> list[Window]:
    """A pass through several layers, fed by a loader."""
    told = {"type": "MultiheadAttention", "training": True, "batch_first": False}
    inside = [(f"module model.{at}", {"args": told}) for at in range(len(shapes))]
    window = Mini({"model.0.weight": {}}).window(
        ("batch", {"indices": list(range(8)), "shapes": [[8, 5, 3], [8]]}),
        ("forward model", {"inside": inside}),
        *(("tensor", {"object": f"model.{at}", "position": "in0", "shape": one}) for at, one in enumerate(shapes)),
    )
    layers = sorted(call.q for call in window.named("module"))
    window.tensors = [one._replace(call=layer) for one, layer in zip(window.tensors, layers, strict=True)]
    return [window]


def _alone(
    shape: list[int], answers: list[list[int]], also: list[int] | None = None, dtype: str = "int64"
) -> list[Window]:
    """A pass without a loader: what goes into an attention, and what the model answers."""
    told = {"type": "MultiheadAttention", "training": True, "batch_first": False}
    inside = [(f"module model.{name}", {"args": told}) for name in ("attention", "second")[: 2 if also else 1]]
    rows = [("tensor", {"object": "model", "position": "in0", "shape": [8, 5], "dtype": dtype})]
    rows += [("tensor", {"object": "model", "position": f"out{at}", "shape": one}) for at, one in enumerate(answers)]
    rows += [("tensor", {"object": "attention", "position": "in0", "shape": one}) for one in (shape, also) if one]
    window = Mini({"model.attention.weight": {}}).window(
        ("forward model", {"args": {"training": True}, "inside": inside}), *rows
    )
    layers = [call.q for call in window.named("module")]
    whole = window.named("forward")[0].q
    window.tensors = [
        one._replace(call=whole if one.object == "model" else layers[at - 1 - len(answers)])
        for at, one in enumerate(window.tensors)
    ]
    return [window]
