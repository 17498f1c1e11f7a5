"""Encodings of positions go along the sequence, not along the batch."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

_NAME = "encodings.first"


class EncodingsAlongSequence(Relation):
    """A layer that adds a table of positions to its input adds a row for each position, not one for each sample.

    The encodings of the PyTorch tutorial are made for inputs with positions first: ``x + self.pe[:x.size(0)]``. Given
    samples first, each sample gets one row for all of its positions, the model knows nothing of order, and what it says of
    a sample depends on its place in the batch. All shapes fit.
    Judged are layers of the program's own without parameters that hold such a table, by what goes in and what comes out, in
    iterations that are recorded in detail. Which axis holds the samples is told by a layer with ``batch_first=True`` that
    is given an input of the same shape. Where other layers go along its first axis, as attention over space and time in turn
    does, it may be that of positions, and nothing is said.
    """

    name = "encodings-along-sequence"
    midway = True
    needs = frozenset({"module", "tensor", "forward", "scalar", _NAME})
    wakes = frozenset({f"scalar {_NAME}"})
    whole = False
    priority = 8
    cause = "the encodings are those for positions first, and the model is given samples first"
    advice = "add self.pe[:, :x.size(1)] of a table of shape (1, length, width), or transpose the input and the output"

    def see(self, window: Window) -> Iterator[Example]:
        laid = _samples_first(window)
        for one in window.numbers:
            if one.name != _NAME or one.value is None:
                continue
            name, _, shape = one.object.rpartition("#")
            if tuple(map(int, shape.split("x"))) not in laid:
                continue
            wrong = one.value == 1.0
            calls = [call for call in window.named("module") if call.object == name]
            yield Example(
                (),
                not wrong,
                {},
                variables=(name,) if wrong else (),
                expected="a row of the table for each position",
                seen="a row for each sample of the batch" if wrong else None,
                call=window.pass_of(calls[0]) if calls else None,
                detail=f"{name} adds its encodings along the samples of the batch" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield [_run(0.0, True)]
        yield [_run(0.0, True), _run(1.0, False)]  # positions first, all along
        for second in (False, True):  # attention over both axes in turn: over the first one as positions, too
            yield [_run(0.0, True), _run(1.0, True, second)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield [_run(1.0, True)]


def _samples_first(window: Window) -> set[tuple[int, ...]]:
    """The first two axes of inputs of layers that take samples first, but for those that others take as positions."""
    kinds = {call.q: (call.args or {}).get("batch_first") for call in window.named("module")}
    first: set[tuple[int, ...]] = set()
    second: set[tuple[int, ...]] = set()
    for seen in window.tensors:
        kind = kinds.get(seen.call)
        if seen.position != "in0" or len(seen.shape) != 3 or not isinstance(kind, bool):
            continue
        (first if kind else second).add(tuple(seen.shape[:2]))
    return {one for one in first if one not in second and one[::-1] not in first}


def _run(value: float, *batch_first: bool) -> Window:
    """A layer that adds its table, and attentions; the second one with samples first is given the input the other way round."""
    names = [f"model.attention{number}" for number in range(len(batch_first))]
    kinds = [{"type": "MultiheadAttention", "training": True, "batch_first": one} for one in batch_first]
    shapes = [[5, 8, 16] if number and one else [8, 5, 16] for number, one in enumerate(batch_first)]
    layers = [(f"module {name}", {"args": kind}) for name, kind in zip(names, kinds, strict=True)]
    window = Mini({"model.attention0.weight": {}}).window(
        ("forward model", {"inside": ["module model.places", *layers]}),
        ("scalar", _NAME, "model.places#8x5", value),
        *[
            ("tensor", {"object": name, "position": "in0", "shape": one})
            for name, one in zip(names, shapes, strict=True)
        ],
    )
    numbers = {call.object: call.q for call in window.named("module")}
    window.tensors = [one._replace(call=numbers[one.object]) for one in window.tensors]
    return window
