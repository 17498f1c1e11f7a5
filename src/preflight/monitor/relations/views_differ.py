"""Two views of one sample differ."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Batch, Call, Window

_IN_A_ROW = 2


class ViewsDiffer(Relation):
    """Two tensors of a batch that go through one model, one after the other or as one, are not the same.

    A contrastive loss compares two views of a sample, or two samples of a pair. Where both are one tensor (the transform is
    applied once, is switched off, or draws from a generator that was seeded anew), the model finds nothing to learn: it
    need only be a function of its input.
    Judged are floating-point tensors of one loader's batch, equal in every bit, that one model is given in two passes with
    gradients in training mode, and for which it gives the same: a model that drops makes two views by itself. It must
    happen in two iterations in a row. A batch that holds its input a second time as what is to be given out goes through
    once; whole numbers are tokens, which a batch for a model of language holds a second time as labels.
    Views that were put together go through in one pass: then what the model is given has as many samples as all the equal
    tensors of the batch together, of the same shape, and the batch holds no other tensors of that shape.
    """

    name = "views-differ"
    midway = True
    category = "data"
    needs = frozenset({"fetch", "batch", "forward", "backward", "tensor"})
    wakes = frozenset({"fetch"})
    severity = "warning"
    priority = 8
    cause = "the transform is applied once and its result given twice, or it does not draw anew for the second view"
    advice = "apply the transform twice to each sample, and compare the two views of a batch once: they must differ"

    def __init__(self) -> None:
        self._rounds: dict[str, int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        if not window.named("backward"):
            return
        loaded = [batch for batch in window.batches if not batch.loader.startswith("forward:")]
        if not any(map(_paired, loaded)):
            return
        doubled = {bits for batch in loaded for bits in _doubled(batch)}
        for name, calls in self._passes(window).items():
            if not all(_alone(call) for call, _ in calls):
                continue
            given = [bits for _, bits in calls if bits in doubled]
            joined = len(calls) == 1 and any(_joined(batch, name, window) for batch in loaded)
            same = joined or (len(given) > 1 and self._gives_the_same(name, window))
            rounds = self._rounds[name] = self._rounds.get(name, 0) + 1 if same else 0
            wrong = rounds >= _IN_A_ROW
            yield Example(
                (),
                not wrong,
                {},
                variables=(name,) if wrong else (),
                expected="two different views of each sample",
                seen=f"the same in {'one pass' if joined else f'{len(given)} passes'}, in {rounds} iterations in a row"
                if wrong
                else None,
                call=calls[-1][0],
                detail=f"{name} is given the same views of its samples twice" if wrong else "",
            )

    def _passes(self, window: Window) -> dict[str, list[tuple[Call, int | None]]]:
        """By model: its passes that are trained, with the fingerprint of what went into each."""
        given: dict[str, list[int | None]] = {}
        for batch in window.batches:
            if batch.loader.startswith("forward:"):
                given.setdefault(batch.loader[8:], []).append(batch.bits[0] if batch.bits else None)
        found: dict[str, list[tuple[Call, int | None]]] = {}
        calls: dict[str, list[Call]] = {}
        for call in window.named("forward"):
            calls.setdefault(call.object, []).append(call)
        for name, bits in given.items():
            if len(bits) == len(calls.get(name, ())):
                found[name] = list(zip(calls[name], bits, strict=True))
        return found

    @staticmethod
    def _gives_the_same(name: str, window: Window) -> bool:
        """Whether what came out of all passes has one norm."""
        norms = [seen.norm for seen in window.tensors if seen.object == name and seen.position == "out0"]
        return len(norms) > 1 and norms[0] is not None and norms.count(norms[0]) == len(norms)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([1, 2], [1, 2])
        yield _run([1, 1], [1])  # what is to be given out is the input
        yield _run([1, 1], [1, 1], norms=(3.0, 3.5))  # the model drops
        yield _run([1, 2], [1, 1])  # passes of one view, for two losses
        yield _run([1, 1], [1, 1], dtype="int64")  # labels of a text that are its tokens, and two losses of it
        yield _run([1, 2], [3], size=16)
        yield _run([1, 1, 2], [3], size=16)  # an anchor that is read twice, and another sample

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([1, 1], [1, 1])
        yield _run([1, 1], [3], size=16)


def _paired(batch: Batch) -> bool:
    """Whether a batch holds two tensors of one shape."""
    shapes = [tuple(shape) for shape in batch.shapes if len(shape) > 1]
    return len(set(shapes)) < len(shapes)


def _doubled(batch: Batch) -> Iterator[int]:
    """Fingerprints that two tensors of a batch share, of those with several numbers for each sample that are no tokens."""
    told = zip(batch.bits, batch.shapes, batch.dtypes, strict=False)
    wide = [bits for bits, shape, dtype in told if bits is not None and len(shape) > 1 and "float" in dtype]
    return (bits for bits in set(wide) if wide.count(bits) > 1)


def _joined(batch: Batch, name: str, window: Window) -> bool:
    """Whether equal tensors of a batch, and nothing else of their shape, go into a model as one."""
    told = [pair for pair in zip(batch.bits, batch.shapes, batch.dtypes, strict=False) if len(pair[1]) > 1]
    given = next((one for one in window.batches if one.loader == f"forward:{name}" and one.shapes), None)
    if given is None or not told or any(dtype != told[0][2] or "float" not in dtype for _, _, dtype in told):
        return False
    bits, shape, _ = told[0]
    count = len(told)
    alike = bits is not None and all(one == bits and other == shape for one, other, _ in told)
    return count > 1 and alike and given.shapes[0] == [count * shape[0], *shape[1:]]


def _alone(call: Call) -> bool:
    """Whether a pass is trained, and nothing in it drops."""
    told = call.args or {}
    return call.context.startswith("grad") and bool(told.get("training")) and not told.get("dropout")


def _run(
    held: list[int], given: list[int], norms: tuple[float, float] = (3.0, 3.0), dtype: str = "float32", size: int = 8
) -> list[Window]:
    """Batches of two tensors with these fingerprints, of which those go into the model."""
    mini = Mini({"model.weight": {}})
    windows = []
    for number in range(4):
        rows: list[object] = ["fetch loader0"]
        told = {"shapes": [[8, 4]] * len(held), "dtypes": [dtype] * len(held)}
        rows.append(("batch", {"bits": [number * 10 + one for one in held], **told}))
        for one, norm in zip(given, norms, strict=False):
            more = {"loader": "forward:model", "bits": [number * 10 + one], "shapes": [[size, 4]]}
            out = ("tensor", {"object": "model", "position": "out0", "norm": norm})
            rows += [("batch", more), ("forward model", {"args": {"training": True}, "inside": (out,)})]
        windows.append(mini.window(*rows, "backward", "step optimizer0:SGD"))
    return windows
