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
    is given an input of the same shape.
    """

    name = "encodings-along-sequence"
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

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield [_run(1.0, True)]


def _samples_first(window: Window) -> set[tuple[int, ...]]:
    """The first two axes of inputs of layers that take samples first."""
    first = {call.q for call in window.named("module") if (call.args or {}).get("batch_first") is True}
    return {
        tuple(seen.shape[:2])
        for seen in window.tensors
        if seen.call in first and seen.position == "in0" and len(seen.shape) == 3
    }


def _run(value: float, batch_first: bool) -> Window:
    kind = {"type": "MultiheadAttention", "training": True, "batch_first": batch_first}
    window = Mini({"model.attention.weight": {}}).window(
        ("forward model", {"inside": ["module model.places", ("module model.attention", {"args": kind})]}),
        ("scalar", _NAME, "model.places#8x5", value),
        ("tensor", {"object": "model.attention", "position": "in0", "shape": [8, 5, 16]}),
    )
    number = window.named("module")[1].q
    window.tensors = [one._replace(call=number) for one in window.tensors]
    return window
