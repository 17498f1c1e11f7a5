"""A schedule has advanced when the data is gone through once more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.scope import parts_of
from preflight.monitor.window import Call, Window

_ADVANCED, _NOT_YET = "has advanced", "has not advanced"
_TRAINED = 2
"""Steps in a pass through a loader that make it one of the training."""
_EPOCHS = 6
"""Passes that are looked at: later, a schedule may have come to its end."""


class SchedulesAdvance(Relation):
    """A schedule has advanced when the data is gone through once more.

    Learnt of the first six passes of the training through a loader: whether any schedule of a learning rate has been told to
    advance when the next one begins. Where it had in the runs this was learnt from and has not, the call is missing, or stands
    in a branch that is not taken; the rate keeps its first value, or that of a warm-up.
    """

    name = "schedules-advance"
    fields = ("passes",)
    needs = frozenset({"step", "loop"})
    wakes = frozenset({"step", "loop", "scheduler.step"})
    severity = "warning"
    priority = 47
    asked = ("what_is_trained",)
    learns = True
    shared = False
    least = 2
    support = 2
    cause = "scheduler.step() is missing, or stands in a branch that is not taken"
    advice = "look at where the schedule is advanced in a correct run"

    def __init__(self) -> None:
        self._steps = 0
        self._advanced = False
        self._passes = 0
        self._began: dict[str, int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.plain:
            if call.name == "step":
                self._steps += 1
            elif call.name == "scheduler.step":
                self._advanced = True
            elif call.name == "loop" and self._again(call):
                value = _ADVANCED if self._advanced else _NOT_YET
                yield Example(
                    ("of the training",),
                    True,
                    {"what_is_trained": parts_of(window)},
                    (call.object,),
                    call=call,
                    value=value,
                )

    def _again(self, call: Call) -> bool:
        """Whether one of the first passes of the training through a loader is over."""
        began = self._began.get(call.object, self._steps)
        self._began[call.object] = self._steps
        if self._steps - began < _TRAINED or self._passes >= _EPOCHS:
            return False
        self._passes += 1
        return True

    @classmethod
    def trivial(cls, subject: Mapping[str, Any]) -> bool:
        return subject.get("value") != _ADVANCED

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        return f"A schedule {subject.get('value')} when the data is gone through once more"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run("scheduler.step StepLR")

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run()


def _run(*more: str) -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [mini.window("loop loader0", *["step optimizer0:SGD"] * 3, *more) for _ in range(8)]
