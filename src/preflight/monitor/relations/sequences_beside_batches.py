"""A recurrent layer runs along time, not along the samples of a batch."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Batch, Call, Seen, Window

_RECURRENT = ("LSTM", "GRU", "RNN")
_LEAST = 2


class SequencesBesideBatches(Relation):
    """The dimension that a recurrent layer takes for the batch is the one that the loader's batches have.

    ``nn.LSTM``, ``nn.GRU`` and ``nn.RNN`` take the first dimension for time unless they are made with ``batch_first=True``.
    Given batches first they run along the samples, and what each sample gets depends on those before it in the batch.
    Judged where a loader gave tensors of so many samples each, the input has as many in its first dimension and not in its
    second, and the last hidden state has as many rows as that second dimension: then the samples were taken for time.
    How many samples there are is known where the loader says which ones, or where a tensor of the batch has a single
    dimension, as labels do: a collation may lay sequences with time first.
    Batches of one long sequence, whose second dimension has a size of one, are left alone.
    """

    name = "sequences-beside-batches"
    midway = True
    category = "data"
    needs = frozenset({"fetch", "forward", "module", "tensor", "batch"})
    wakes = frozenset({"module"})
    repeats = 2
    looks = frozenset({"module", "forward", "fetch", "tensors", "batches"})
    priority = 7
    cause = "the layer was made without batch_first=True and is given tensors whose first dimension is the batch"
    advice = "make it with batch_first=True, or transpose what goes into it"

    def see(self, window: Window) -> Iterator[Example]:
        sizes = {_samples(batch) for batch in window.batches if not batch.loader.startswith("forward:")}
        if len(sizes) != 1:
            return
        size = sizes.pop()
        if not size:
            return
        layers = (call for kind in _RECURRENT for call in window.layers().get(kind, ()))
        calls = {call.q: call for call in layers if (call.args or {}).get("type") in _RECURRENT}
        rows: dict[int, dict[str, Seen]] = {}
        for seen in window.tensors:
            if seen.call in calls and seen.position in ("in0", "out1"):
                rows.setdefault(seen.call, {})[seen.position] = seen
        for number, pair in rows.items():
            yield from self._judge(calls[number], pair, size)

    @staticmethod
    def _judge(call: Call, rows: dict[str, Seen], size: int) -> Iterator[Example]:
        if len(rows) < 2:
            return
        given, state = rows["in0"].shape, rows["out1"].shape
        if len(given) != 3 or len(state) != 3 or size < _LEAST:
            return
        wrong = given[0] == size != given[1] == state[1] > 1
        yield Example(
            (),
            not wrong,
            {"type": (call.args or {}).get("type")},
            variables=(call.object,) if wrong else (),
            expected=f"a batch of {size}",
            seen=f"{given[1]} sequences of length {given[0]}, out of an input of shape {given}" if wrong else None,
            call=call,
            detail=f"{call.object} runs along the samples of a batch as if they were time" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([32, 12, 4], [1, 32, 24])
        yield _run([12, 32, 4], [1, 32, 24])
        yield _run([32, 1, 4], [1, 1, 24])
        across = _run([11, 12, 4], [1, 12, 24], {"shapes": [[11, 12], [11, 12]]})  # laid with time first
        yield [*_run([12, 32, 4], [1, 32, 24]), *across]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([32, 12, 4], [1, 12, 24])


def _samples(batch: Batch) -> int:
    """How many samples a batch holds, where all of its tensors have them first; 0 where that is not known."""
    first = {shape[0] if shape else 0 for shape in batch.shapes}
    if len(first) != 1:
        return 0
    size = first.pop()
    if batch.indices:
        return size if len(batch.indices) == size else 0
    return size if any(len(shape) == 1 for shape in batch.shapes) else 0


def _run(given: list[int], state: list[int], batch: dict[str, object] | None = None) -> list[Window]:
    mini = Mini({"model.lstm.weight": {}})
    inside = (
        ("tensor", {"object": "model.lstm", "position": "in0", "shape": given}),
        ("tensor", {"object": "model.lstm", "position": "out1", "shape": state}),
    )
    module = ("module model.lstm", {"args": {"type": "LSTM", "training": True}, "inside": inside})
    told = ("batch", {"loader": "loader0", **(batch or {"indices": range(32), "shapes": [[32, 12, 4], [32]]})})
    window = mini.window("fetch loader0", told, ("forward model", {"inside": (module,)}), "backward")
    number = next(call.q for call in window.calls if call.name == "module")
    window.tensors = [one._replace(call=number) for one in window.tensors]
    return [window]
