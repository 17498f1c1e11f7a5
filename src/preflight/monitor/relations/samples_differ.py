"""The samples of a batch differ."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Batch, Call, Window

_IN_A_ROW = 2
_Bits = list[list[int | None]]


class SamplesDiffer(Relation):
    """A batch does not consist of one and the same sample, over and over.

    Entries that were stored as references to one list, a buffer whose index never advances, an expanded tensor or a seed
    that is set in `__getitem__` make batches of one sample, which train as much as a single one would.
    Looked at are tensors with four samples or more and several different numbers in each: all of them that go into a model
    in training, in two looks in a row, while they change, or while what a loader gives beside them does, as labels do
    where every sample reads the same input.
    """

    name = "samples-differ"
    midway = True
    category = "data"
    needs = frozenset({"forward", "backward", "batch", "alike"})
    wakes = frozenset({"alike"})
    severity = "warning"
    priority = 7
    cause = "samples are references to one object, the index of a memory does not advance, or one sample is expanded to a batch"
    advice = "print two samples of a batch, and store copies (clone(), a new list) instead of references"

    def __init__(self) -> None:
        self._rounds: dict[str, int] = {}
        self._last: dict[str, _Bits] = {}

    def see(self, window: Window) -> Iterator[Example]:
        rows = {batch.loader[8:]: batch for batch in window.batches if batch.loader.startswith("forward:")}
        passes = {
            call.object: call
            for call in window.named("forward")
            if call.context.startswith("grad") and "alike" in (call.args or {})
        }
        if not window.named("backward"):
            return
        beside = [batch.bits for batch in window.batches if not batch.loader.startswith("forward:")]
        for name, call in passes.items():
            batch = rows.get(name)
            if batch is not None and all(len(shape) < 2 or len(shape) and shape[0] >= 4 for shape in batch.shapes):
                yield self._judge(call, batch, beside)

    def _judge(self, call: Call, batch: Batch, beside: _Bits) -> Example:
        wide = [position for position, shape in enumerate(batch.shapes) if len(shape) > 1]
        alike = (call.args or {}).get("alike") or []
        bits = [batch.bits, *beside]
        changed = self._last.get(call.object) not in (None, bits)
        self._last[call.object] = bits
        same = bool(wide) and set(wide) <= set(alike)
        rounds = self._rounds[call.object] = self._rounds.get(call.object, 0) + 1 if same and changed else 0
        wrong = rounds >= _IN_A_ROW
        return Example(
            (),
            not wrong,
            {},
            variables=(call.line,) if wrong else (),
            expected="different samples in a batch",
            seen=f"one sample {batch.shapes[wide[0]][0]} times, in {rounds + 1} batches in a row" if wrong else None,
            call=call,
            detail="All samples of a batch are the same" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([[], [], []])
        yield _run([[0], [], [0], []])
        yield _run([[0], [0], [0]], bits=[5, 5, 5])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([[0], [0], [0]])
        yield _run([[0], [0], [0]], bits=[5, 5, 5], labels=[1, 2, 3])


def _run(alike: list[list[int]], bits: list[int] | None = None, labels: list[int] | None = None) -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [
        mini.window(
            ("batch", {"loader": "loader0", "bits": [5, labels[number] if labels else 0], "shapes": [[8, 4], [8]]}),
            ("batch", {"loader": "forward:model", "bits": [bits[number] if bits else number], "shapes": [[8, 4]]}),
            ("forward model", {"args": {"training": True, "alike": positions}}),
            "backward",
        )
        for number, positions in enumerate(alike)
    ]
