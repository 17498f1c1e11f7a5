"""The steps of schedulers in the windows of a run, and what their optimizers did since the step before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import Call, Window

_MOST_CALLS = 4096
_RARE = frozenset({"scheduler.step", "load_state_dict"})
"""What most iterations do not have: in those without it, only the steps are counted."""
_STEPS = frozenset({"step", "scaler.step"})


class Advance(NamedTuple):
    """One step of one scheduler.

    Attributes:
        call: The step.
        scheduler: Its number and kind: two of one kind are not the same.
        optimizer: The number of its optimizer.
        between: The calls of the process since the scheduler's step before, in order.
        first: Whether it is the first step of this scheduler.
        steps: How often its optimizer has stepped before, since it was made or loaded.
        tried: How often it has stepped or been asked to through a gradient scaler.
    """

    call: Call
    scheduler: str
    optimizer: int
    between: list[Call]
    first: bool
    steps: int
    tried: int


class Schedules:
    """Follows the windows of one rank and finds the steps of schedulers in them."""

    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._last: dict[str, int] = {}
        self._steps: dict[int, int] = {}
        self._tried: dict[int, int] = {}
        self._full = 256

    def see(self, window: Window) -> list[Advance]:
        """The steps of schedulers in a window, in order."""
        found: list[Advance] = []
        names = window.names()
        if _RARE.isdisjoint(names):
            for name in _STEPS & names.keys():
                for call in names[name]:
                    self._stepped(call)
            self._calls += window.plain
        else:
            for call in window.plain:
                found += self._take(call)
                self._calls.append(call)
        if len(self._calls) > self._full:
            oldest = min(self._last.values(), default=-1)
            self._calls = [one for one in self._calls if one.q > oldest][-_MOST_CALLS:]
            self._full = max(256, 2 * len(self._calls))
        return found

    def _take(self, call: Call) -> Iterator[Advance]:
        if call.name in _STEPS:
            self._stepped(call)
        elif call.name == "load_state_dict" and call.object.startswith("optimizer"):
            self._steps[optimizer_number(call)] = self._tried[optimizer_number(call)] = 0
        elif call.name == "scheduler.step":
            yield self._advance(call)

    def _stepped(self, call: Call) -> None:
        number = optimizer_number(call)
        self._tried[number] = self._tried.get(number, 0) + 1
        if call.name == "step":
            self._steps[number] = self._steps.get(number, 0) + 1

    def _advance(self, call: Call) -> Advance:
        told = (call.result or {}).get("optimizer") or (call.args or {}).get("optimizer") or ""
        optimizer = optimizer_number(call._replace(object=told))
        name = f"{call.object}{(call.args or {}).get('index', '')} of {told}"
        since = self._last.get(name)
        between = [one for one in self._calls if since is None or one.q > since]
        self._last[name] = call.e
        steps, tried = self._steps.get(optimizer, 0), self._tried.get(optimizer, 0)
        return Advance(call, name, optimizer, between, since is None, steps, tried)


def advances_of(window: Window) -> list[Advance]:
    """The steps of schedulers in a window; the windows of a rank must be asked for in order."""
    if window.advances is None:
        if window.run.schedules is None:
            window.run.schedules = Schedules()
        window.advances = window.run.schedules.see(window)
    found: list[Advance] = window.advances
    return found


def own(call: Call) -> bool:
    """Whether the person's own code steps the scheduler, and not a library that counts in a way of its own."""
    return (call.args or {}).get("by", "") not in ("accelerate",)
