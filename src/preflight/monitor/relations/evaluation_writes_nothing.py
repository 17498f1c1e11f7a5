"""An evaluation leaves the parameters as they are."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window
from preflight.vocabulary.counted import counted

_PASSES = 2
_MOST = 0.5
_MOVED = ("wrap.fsdp1", "wrap.fsdp2", "wrap.tp")


class EvaluationWritesNothing(Relation):
    """A forward pass in evaluation mode that records no gradients does not write to parameters.

    Updates that live in `forward` (a momentum encoder that follows, a clamp, an average) also run when the model is
    validated: how far they go then depends on how often and on how much is evaluated.
    torch counts writes to each parameter. Of one that was written to, numbers are compared before and after the passes that
    follow: most of them must change, by more than rounding, in two passes in a row without a step between them. A layer
    that prepares itself, lays its weights out anew, or brings them back to one length changes nothing a second time.
    Buffers are not meant: caches and counters are made for that, and tables with a largest norm are made to be changed
    where they are read. Sharded models move their parameters and are left out.
    """

    name = "evaluation-writes-nothing"
    midway = True
    needs = frozenset({"forward", "evaluation", *_MOVED})
    wakes = frozenset({"forward", "scalar written", *_MOVED})
    repeats = 1
    looks = frozenset({"forward", *_MOVED})
    reads = frozenset({"scalar written"})
    whole = False
    priority = 17
    cause = "an update of weights stands in forward() and does not ask whether the model is in training"
    advice = "move the update out of forward(), or do it only where self.training is set"

    def __init__(self) -> None:
        self._written: dict[
            str, tuple[int, int]
        ] = {}  # by parameter the steps done, and the passes since that changed it
        self._moves = False

    def see(self, window: Window) -> Iterator[Example]:
        self._moves = self._moves or any(window.named(name) for name in _MOVED)
        if self._moves:
            return
        for call in window.named("forward"):
            if call.context.startswith("grad") or (call.args or {}).get("training", True):
                continue
            again = []
            for one in window.numbers:
                if one.name != "written" or not call.q < one.q <= call.e:
                    continue
                step, count = self._written.get(one.object, (one.s, 0))
                count = (count if step == one.s else 0) + 1 if (one.value or 0.0) >= _MOST else 0
                self._written[one.object] = one.s, count
                if count >= _PASSES:
                    again.append(one.object)
            yield Example(
                (),
                not again,
                {},
                variables=tuple(again),
                expected="the same parameters before and after an evaluation",
                seen=counted(len(again), "parameter was changed", "parameters were changed") if again else None,
                call=call,
                detail="A forward pass in evaluation changes parameters" if again else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([[None, None, 1.0, None]])
        yield _run([[None, 0.0, 0.0, 0.0]])  # written to, with the same numbers
        yield _run([[1.0, 0.0]] * 3)  # brought back to one length after each step
        yield _run([[0.3, 0.2, 0.1]])  # rows of a table

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([[None, 1.0, 1.0]])


def _run(evaluations: list[list[float | None]]) -> list[Window]:
    """Evaluations with a step between them; for each pass the share of a parameter's numbers that it changed."""
    mini = Mini({"model.slow.weight": {}})
    windows = []
    for shares in evaluations:
        windows.append(mini.window("forward model", "backward", "step optimizer0:SGD"))
        for share in shares:
            told = [] if share is None else [("scalar", "written", "model.slow.weight", share)]
            look = {"context": "nograd", "args": {"training": False}, "inside": told}
            windows.append(mini.window(("forward model", look)))
    return windows
