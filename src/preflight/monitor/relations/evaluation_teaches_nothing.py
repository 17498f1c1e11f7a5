"""What a model keeps of its data does not follow the data of an evaluation."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window
from preflight.vocabulary.counted import counted

_PASSES = 2
_MOST = 0.5


class EvaluationTeachesNothing(Relation):
    """A buffer that moves on a little with each batch of the training stays as it is in an evaluation.

    Ranges of activations, centres, codebooks and means that a layer follows by a moving average belong to the training
    data. Where the layer does not ask whether it is in training, held-out data move them too: what is measured depends on
    the order of the evaluation, and the training that goes on uses what it must not have seen.
    Meant are buffers of the program's own layers that are saved with the model, hold fractions, and changed with the steps
    of the training. In an evaluation, in two passes in a row without a step between them, they change by less than half of
    what they were. Counters and sums of a metric begin anew, caches and states change as a whole, and buffers that torch's
    own layers follow are theirs.
    """

    name = "evaluation-teaches-nothing"
    midway = True
    needs = frozenset({"forward", "evaluation", "state"})
    wakes = frozenset({"scalar followed", "exact buffer at after_step"})
    whole = False
    severity = "warning"
    priority = 24
    cause = "the update of a moving average stands in forward() and does not ask for self.training"
    advice = "follow the data only where self.training is set, or stop observing before the evaluation"

    def __init__(self) -> None:
        self._bits: dict[int, int] = {}
        self._moved: set[str] = set()  # buffers that changed between two steps
        self._followed: dict[str, tuple[int, int]] = {}  # by buffer the steps done, and the passes since that moved it

    def see(self, window: Window) -> Iterator[Example]:
        for state in window.state("after_step", "buffer", exact=True):
            for ident, bits in zip(state.ids, state.bits or (), strict=False):
                if bits is not None and self._bits.setdefault(ident, bits) != bits:
                    self._bits[ident] = bits
                    self._moved.add(window.run.name(ident))
        told = [one for one in window.numbers if one.name == "followed"]
        if not told:
            return
        for call in window.named("forward"):
            own = [one for one in told if call.q < one.q <= call.e]
            if not own:
                continue
            again = []
            for one in own:
                step, count = self._followed.get(one.object, (one.s, 0))
                little = 0.0 < (one.value or 0.0) < _MOST
                count = (count if step == one.s else 0) + 1 if little else 0
                self._followed[one.object] = one.s, count
                if count >= _PASSES and one.object in self._moved:
                    again.append(one.object)
            yield Example(
                (),
                not again,
                {},
                variables=tuple(again),
                expected="the same buffers before and after an evaluation",
                seen=counted(
                    len(again), "buffer that goes on following the data", "buffers that go on following the data"
                )
                if again
                else None,
                call=call,
                detail="What a model follows in training is moved by the data of an evaluation" if again else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([1, 2, 3], [0.0, 0.0, 0.0])
        yield _run([1, 2, 3], [1.0, 0.7, 0.6])  # a sum that begins anew, or a state that changes as a whole
        yield _run([1, 1, 1], [0.1, 0.1, 0.1])  # it does not take part in the training
        yield _run([1, 2, 3], [0.2, 0.0, 0.2])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([1, 2, 3], [0.2, 0.1])


def _run(bits: list[int], shares: list[float]) -> list[Window]:
    """Steps after each of which a buffer had a fingerprint, and an evaluation whose passes moved it so far."""
    mini = Mini({"model.weight": {}, "model.range": {"kind": "buffer", "optimizer": -1}})
    windows = [
        mini.window("forward model", "backward", "step optimizer0:SGD", ("buffers", {"model.range": (1.0 + one, one)}))
        for one in bits
    ]
    for share in shares:
        look = {
            "context": "nograd",
            "args": {"training": False},
            "inside": [("scalar", "followed", "model.range", share)],
        }
        windows.append(mini.window(("forward model", look)))
    return windows
