"""The schedule advances after the step."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.schedules import Advance, advances_of
from preflight.monitor.window import Window


class ScheduleFollowsStep(Relation):
    """A scheduler advances after the step of its optimizer, not between the gradients and the step that uses them.

    Where it comes first, the rate that it held for this step is replaced by the next one before it was used: the first
    value of a warm-up is never used, and all others come one step early.
    Judged where the passes since the optimizer's last step are known: a scheduler that advances after a backward pass,
    with the step of its optimizer following before any other backward pass, is too early.
    A step that a gradient scaler left out is not missed.
    """

    name = "schedule-follows-step"
    needs = frozenset({"scheduler.step", "step", "backward"})
    follows = (advances_of,)
    wakes = frozenset({"backward", "scheduler.step", "step", "scaler.step"})
    repeats = 3
    looks = frozenset({"backward", "scheduler.step", "step", "scaler.step"})
    whole = False
    severity = "warning"
    priority = 22
    cause = "scheduler.step() stands before optimizer.step()"
    advice = "call scheduler.step() after optimizer.step()"

    def __init__(self) -> None:
        self._waiting: list[Advance] = []
        self._backward = False
        self._since: dict[int, bool] = {}
        self._ended: dict[int, int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        advances = {one.call.q: one for one in advances_of(window)}
        for call in window.plain:
            if call.name == "backward":
                # What waits was followed by another backward pass: it is not this order.
                yield from self._settled(False)
                for number in self._since:
                    # A closure's backward pass happens inside the step.
                    self._since[number] = self._since[number] or call.q > self._ended.get(number, -1)
                self._backward = True
            elif call.name == "scheduler.step":
                advance = advances[call.q]
                if self._since.setdefault(advance.optimizer, self._backward):
                    self._waiting.append(advance)
                else:
                    yield self._example(advance, True)
            elif call.name in ("step", "scaler.step"):
                number = _number(call.object)
                wrong = [one for one in self._waiting if one.optimizer == number]
                self._waiting = [one for one in self._waiting if one.optimizer != number]
                for advance in wrong:
                    yield self._example(advance, False)
                self._since[number] = False
                self._ended[number] = call.e

    def _settled(self, wrong: bool) -> Iterator[Example]:
        for advance in self._waiting:
            yield self._example(advance, not wrong)
        self._waiting = []

    @staticmethod
    def _example(advance: Advance, holds: bool) -> Example:
        return Example(
            (),
            holds,
            {"scheduler": advance.call.object},
            variables=() if holds else (advance.call.object, f"optimizer{advance.optimizer}"),
            expected="the optimizer's step, then the scheduler's",
            seen=None if holds else "the scheduler's step between the backward pass and the optimizer's step",
            call=advance.call,
            detail="" if holds else f"{advance.call.object} advances before the step that its rate was meant for",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", "step optimizer0:SGD", ("scheduler.step LambdaLR", _ADVANCE)) for _ in range(2)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", ("scheduler.step LambdaLR", _ADVANCE), "step optimizer0:SGD")]


_ADVANCE = {"args": {"index": 0, "optimizer": "optimizer0:SGD"}}


def _number(name: str) -> int:
    word = name.split(":")[0].removeprefix("optimizer")
    return int(word) if word.isdigit() else -1
