"""The schedule advances after the step."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.schedules import Advance, advances_of, own
from preflight.monitor.window import Window


class ScheduleFollowsStep(Relation):
    """A scheduler advances after the step of its optimizer, not between the gradients and the step that uses them.

    Where it comes first, the rate that it held for this step is replaced by the next one before it was used: the first
    value of a warm-up is never used, and all others come one step early.
    Judged where the passes since the optimizer's last step are known: a scheduler that advances after a backward pass,
    with the step of its optimizer following before any other backward pass, is too early.
    A step that a gradient scaler left out is not missed.
    A new scheduler whose first advance comes before its optimizer ever stepped is too early as well, in whatever order the
    two follow later: its first rate is never used. That is only said where the advance changed a rate that was not zero;
    where nothing else advanced it before the step, as a program does that goes on from a later epoch; and where it was
    not told which epoch it is.
    """

    name = "schedule-follows-step"
    needs = frozenset({"scheduler.step", "step", "backward"})
    follows = (advances_of,)
    wakes = frozenset({"backward", "scheduler.step", "step", "scaler.step", "load_state_dict"})
    repeats = 3
    looks = frozenset({"backward", "scheduler.step", "step", "scaler.step", "load_state_dict"})
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
        self._stepped: set[int] = set()  # optimizers that stepped, or were asked to
        self._loaded = False  # whether the run goes on from another one
        self._early: dict[str, Advance | None] = {}  # by scheduler, before its optimizer stepped; None: it is meant

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
            elif call.name == "load_state_dict":
                self._loaded = True
                self._early.clear()
            elif call.name == "scheduler.step":
                advance = advances[call.q]
                if advance.optimizer not in self._stepped and not self._backward:
                    told = advance.scheduler not in self._early and not self._loaded and _skips(advance)
                    self._early[advance.scheduler] = advance if told else None
                    continue
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
                if number not in self._stepped:
                    self._stepped.add(number)
                    yield from self._skipped(number)
                self._since[number] = False
                self._ended[number] = call.e

    def _settled(self, wrong: bool) -> Iterator[Example]:
        for advance in self._waiting:
            yield self._example(advance, not wrong)
        self._waiting = []

    def _skipped(self, number: int) -> Iterator[Example]:
        """The schedulers that lost their first rate before an optimizer's first step."""
        for one in self._early.values():
            if one is not None and one.optimizer == number:
                rates = (one.call.args or {}).get("before")
                detail = f"{one.call.object} advances before the first step: its first rate is never used"
                seen = f"an advance before the first step, away from a rate of {rates[0] if rates else None}"
                yield self._example(one, False)._replace(detail=detail, seen=seen)
        self._early = {name: one for name, one in self._early.items() if one is not None and one.optimizer != number}

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
        mini = Mini({"model.weight": {}})
        forward = [_first(count, 0.1 * 0.5**count) for count in range(2)]
        train = ("backward", "step optimizer0:SGD", _first(2, 0.025))
        yield [mini.window(*forward, *train)]
        mini = Mini({"model.weight": {}})
        yield [mini.window(_first(0, 0.0, 0.1), *train)]
        mini = Mini({"model.weight": {}})
        loaded: tuple[str, dict[str, object]] = ("load_state_dict model", {})
        yield [mini.window(loaded, _first(0, 0.1), *train)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", ("scheduler.step LambdaLR", _ADVANCE), "step optimizer0:SGD")]
        mini = Mini({"model.weight": {}})
        yield [mini.window(_first(0, 0.1), "backward", "step optimizer0:SGD")]


_ADVANCE = {"args": {"index": 0, "optimizer": "optimizer0:SGD"}}


def _first(count: int, rate: float, after: float | None = None) -> tuple[str, dict[str, object]]:
    """The advance of a scheduler from a count and a rate."""
    told = {"index": 0, "optimizer": "optimizer0:SGD", "count": count, "before": [rate]}
    left = {"optimizer": "optimizer0:SGD", "count": count + 1, "rates": [rate / 2 if after is None else after]}
    return "scheduler.step LambdaLR", {"args": told, "result": left}


def _skips(advance: Advance) -> bool:
    """Whether a scheduler leaves its first rate, without having been told where it is."""
    told, left = advance.call.args or {}, advance.call.result or {}
    before, after = told.get("before"), left.get("rates")
    if not before or not after or before == after or min(before) <= 0 or told.get("given"):
        return False
    return own(advance.call) and told.get("count") == 0 and left.get("count") == 1


def _number(name: str) -> int:
    word = name.split(":")[0].removeprefix("optimizer")
    return int(word) if word.isdigit() else -1
