"""A schedule has advanced when the data is gone through once more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation, values_of
from preflight.monitor.views.resumed import is_resumed
from preflight.monitor.window import Call, Window

_ADVANCED, _AT_TIMES, _NOT_YET = "has advanced", "advances now and then", "has not advanced"
_TRAINED = 2
"""Steps with the batches of a pass through a loader that make it one of the training."""
_EPOCHS = 6
"""Passes that are looked at: later, a schedule may have come to its end."""


class SchedulesAdvance(Relation):
    """A schedule has advanced when the data is gone through once more.

    Learnt of the first six passes of the training through a loader: whether any schedule of a learning rate has been told to
    advance when the next one begins. Where it had in the runs this was learnt from and has not, the call is missing, or stands
    in a branch that is not taken; the rate keeps its first value, or that of a warm-up.
    Nothing is learnt of one that advances after some steps within a pass: how many steps a pass has is a matter of the batch. Nor
    is a run judged that goes on with the state of an optimizer, and may have come to the end of its schedule.
    """

    name = "schedules-advance"
    fields = ("passes",)
    needs = frozenset({"step", "loop", "fetch", "backward", "load_state_dict", "scheduler.step"})
    wakes = frozenset({"step", "loop", "fetch", "backward", "load_state_dict", "scheduler.step"})
    severity = "warning"
    priority = 47
    learns = True
    bounded = True
    least = 2
    support = 2
    cause = "scheduler.step() is missing, or stands in a branch that is not taken"
    advice = "look at where the schedule is advanced in a correct run"

    def __init__(self) -> None:
        self._steps = self._advances = 0
        self._rested = 0  # steps since the last advance
        self._passes = 0
        self._loader = ""  # that gave the last batch, or is about to
        self._of: dict[str, int] = {}  # steps with the batches of each since a pass through it began

    def see(self, window: Window) -> Iterator[Example]:
        if is_resumed(window):
            return
        for call in window.plain:
            if call.name == "step":
                self._steps += 1
                self._rested += 1
                self._of[self._loader] = self._of.get(self._loader, 0) + 1
            elif call.name == "scheduler.step":
                self._advances += 1
                self._rested = 0
            elif call.name == "fetch":
                self._loader = call.object
            elif call.name == "loop" and self._again(call):
                yield Example(("of the training",), True, {}, (call.object,), call=call, value=self._told())

    def _again(self, call: Call) -> bool:
        """Whether one of the first passes of the training through a loader is over."""
        steps = self._of.pop(call.object, 0)
        self._loader = call.object
        if steps < _TRAINED or self._passes >= _EPOCHS:
            return False
        self._passes += 1
        return True

    def _told(self) -> str:
        """Whether a schedule advances with the passes or the steps, now and then, or not at all."""
        if not self._advances:
            return _NOT_YET
        return _ADVANCED if not self._rested or 2 * self._advances >= self._steps else _AT_TIMES

    @classmethod
    def expected_of(cls, subject: Mapping[str, Any], value: Any) -> str | None:
        known = values_of(subject)
        return _ADVANCED if value == _NOT_YET and known == [_ADVANCED] else None

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
