"""Steps use as many backward passes as they did before."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import Call, Window

_FIRST = 3
"""Steps after which it is clear whether the first one was like the others."""


class AccumulationEven(Relation):
    """With accumulation, the passes that are left over at the end of an epoch do not leak into the next step.

    When the batches of an epoch are no multiple of the accumulation, the last ones are left without a step. Their
    gradients are cleared, or make a smaller step of their own, or the count goes on over the epochs. Where they stay while
    the count begins anew, a step of the next epoch adds up more passes than any other.
    Also reported: a first step after a single pass where all further ones use several (a condition such as
    ``index % k == 0``, which is true for the very first batch).
    """

    name = "accumulation-even"
    needs = frozenset({"step", "backward", "zero_grad", "loop"})
    wakes = frozenset({"step"})
    repeats = 4
    looks = frozenset({"step", "backward", "zero_grad", "loop"})
    severity = "warning"
    priority = 21
    cause = "the condition for a step counts within the epoch, and nothing takes care of the batches that are left over"
    advice = "clear the gradients at the end of an epoch, or count (index + 1) % k over the whole run"

    def __init__(self) -> None:
        self._counts: dict[int, list[int]] = {}  # of the first steps: no further ones are asked for
        self._within: dict[int, int] = {}  # the most passes of a step within one epoch

    def see(self, window: Window) -> Iterator[Example]:
        for step in steps_of(window):
            passes = step.named("backward")
            if step.closure or not passes or len({call.place for call in passes}) > 1:
                continue
            cleared = max((call.q for call in step.clearing(window)), default=-1)
            used = [call for call in passes if call.q > cleared]
            if not used:
                continue
            yield self._example(step, used)

    def _example(self, step: Step, used: list[Call]) -> Example:
        index, count = step.optimizer, len(used)
        spans = any(used[0].q < call.q < used[-1].q for call in step.named("loop"))
        most = self._within.get(index, 0)
        leaked = spans and 1 < most < count
        counts = self._counts.setdefault(index, [])
        if len(counts) < _FIRST:
            counts.append(count)
            early = len(counts) == _FIRST and counts[0] == 1 and counts[1] == counts[2] > 1
        else:
            early = False
        if not spans:
            self._within[index] = max(most, count)
        context = {"optimizer": step.kind, "epochs": spans}
        if not leaked and not early:
            return Example((), True, context)
        word = f"The first step used a single backward pass, all others use {count}"
        if leaked:
            word = (
                f"A step adds up {count} backward passes, of which {count - most} were left over from the epoch before"
            )
        return Example(
            (),
            False,
            context,
            variables=("zero_grad", "step"),
            expected=f"{most if leaked else count} backward passes for a step",
            seen=f"{count if leaked else 1}",
            call=step.call,
            detail=word,
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run("4 loop bbb clear 4")
        yield _run("1 1 1 4 4")

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run("4 loop 4 bbb loop 4")
        yield _run("1 4 4 4")


def _run(words: str) -> list[Window]:
    mini = Mini({"model.weight": {}})
    rows: list[str] = []
    for word in words.split():
        if word.isdigit():
            rows += ["backward"] * int(word) + ["step optimizer0:SGD", "zero_grad optimizer0:SGD"]
        elif word == "loop":
            rows.append("loop loader0")
        else:
            rows += ["zero_grad optimizer0:SGD"] if word == "clear" else ["backward"] * len(word)
    return [mini.window(*rows)]
