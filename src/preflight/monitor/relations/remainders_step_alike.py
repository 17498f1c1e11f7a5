"""What is left of an accumulation at the end of an epoch makes a step, where it did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import Call, Window

_STEPS = 2
"""Steps before it is known how many passes make one."""
_STEPPED, _CLEARED = "make a step of their own", "are cleared, and make no step"


class RemaindersStepAlike(Relation):
    """The passes that are left over at the end of an epoch make a step, where they did in the runs this was learnt from.

    With accumulation, an epoch whose batches are no multiple of the passes of a step ends with fewer. A loop steps
    with them, or it drops them: both are seen in correct programs. Where a program stepped with them and now clears
    them when the next epoch begins, the condition of its step has changed, and the last samples of each epoch teach
    nothing. Judged where one optimizer alone steps. Gradients that are cleared amidst an epoch, as those of a batch
    whose loss overflowed, are no remainder.
    """

    name = "remainders-step-alike"
    fields = ("remainder",)
    needs = frozenset({"step", "backward", "zero_grad", "loop"})
    follows = (steps_of,)
    wakes = frozenset({"step"})
    severity = "warning"
    priority = 34
    learns = True
    least = 2
    support = 2
    cause = "the step at the last batch of an epoch is missing from the condition, and the gradients are cleared for the next epoch"
    advice = "step at the last batch, too: (number + 1) % passes == 0 or number + 1 == len(loader)"

    def __init__(self) -> None:
        self._usual = 0
        self._steps = 0
        self._optimizers: set[int] = set()

    def see(self, window: Window) -> Iterator[Example]:
        for step in steps_of(window):
            self._optimizers.add(step.optimizer)
            if step.closure or len(self._optimizers) > 1:
                return
            left, used = _left_over(step, window), _used(step, window)
            if self._steps >= _STEPS and self._usual > 1:
                if left and len(left) < self._usual:
                    yield Example(("passes",), True, {}, ("zero_grad",), call=left[-1], value=_CLEARED)
                if 0 < used < self._usual:
                    yield Example(("passes",), True, {}, (step.call.object,), call=step.call, value=_STEPPED)
            self._usual = max(self._usual, used)
            self._steps += 1

    @classmethod
    def trivial(cls, subject: Mapping[str, Any]) -> bool:
        return subject.get("value") != _STEPPED

    @classmethod
    def departure(cls, subject: Mapping[str, Any], value: Any) -> str:
        return f"The passes that are left over at the end of an epoch {value}"

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        return f"The passes that are left over at the end of an epoch {subject.get('value')}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(stepped=True)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(stepped=False)


def _used(step: Step, window: Window) -> int:
    """How many passes went into a step."""
    cleared = max((call.q for call in step.clearing(window)), default=-1)
    return sum(call.q > cleared for call in step.named("backward"))


def _left_over(step: Step, window: Window) -> list[Call]:
    """The passes since the step before whose gradients were cleared, where an epoch began before the passes that were used."""
    cleared = max((call.q for call in step.clearing(window)), default=-1)
    thrown = [call for call in step.named("backward") if call.q < cleared]
    used = min((call.q for call in step.named("backward") if call.q > cleared), default=-1)
    began = any(thrown[-1].q < call.q < used for call in step.named("loop")) if thrown else False
    return thrown if began else []


def _run(stepped: bool) -> list[Window]:
    """Three epochs of five passes, two of which make a step."""
    mini = Mini({"model.weight": {}})
    step = ["step optimizer0:SGD", "zero_grad optimizer0:SGD"]
    windows = []
    for _ in range(3):
        begun: list[str] = ["zero_grad optimizer0:SGD", "loop loader0"]
        for number in range(5):
            last = stepped and number == 4
            windows.append(mini.window(*begun, "backward", *(step if number % 2 or last else [])))
            begun = []
    return windows
