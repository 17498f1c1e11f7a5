"""The steps of optimizers in the windows of a run: what happened since the step before, and the state around each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from preflight.monitor.window import Call, State, Window

_MOST_CALLS = 2000  # of an optimizer that no longer steps, nobody asks what happened since
_MOST_STATES = 200


class Step(NamedTuple):
    """One step of one optimizer.

    Attributes:
        call: The step.
        optimizer: Its number.
        done: How many steps it did before.
        between: All calls of the process since its step before, in order; without those inside the step itself.
        gradients: The gradients just before.
        before: Its parameters just before, where they were taken.
        after: Its parameters just after.
        cleared: States of gradients when a backward pass began since its step before.
    """

    call: Call
    optimizer: int
    done: int
    between: list[Call]
    gradients: State | None
    before: State | None
    after: State | None
    cleared: list[State]

    @property
    def closure(self) -> bool:
        """Whether the step computes its gradients itself."""
        return bool((self.call.args or {}).get("closure"))

    @property
    def kind(self) -> str:
        """The optimizer's class."""
        return self.call.object.split(":")[-1]

    def named(self, name: str) -> list[Call]:
        """The calls of a name since the step before."""
        return [call for call in self.between if call.name == name]

    def owned(self, window: Window) -> set[str]:
        """Names of the roots of its variables."""
        return window.run.roots(self.optimizer)

    def clears(self, call: Call, roots: set[str]) -> bool:
        """Whether a call clears its gradients."""
        if call.name != "zero_grad":
            return False
        return call.object == self.call.object or call.object.split(".")[0] in roots


def optimizer_number(call: Call) -> int:
    """The number of the optimizer that a call names, or -1."""
    return _number(call.object)


@lru_cache(maxsize=4096)
def _number(subject: str) -> int:
    word = subject.split(":")[0]
    return int(word[9:]) if word.startswith("optimizer") and word[9:].isdigit() else -1


class Steps:
    """Follows the windows of one rank and finds the steps in them."""

    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._states: list[State] = []
        self._counts: dict[int, int] = {}
        self._last: dict[int, int] = {}

    def see(self, window: Window) -> Iterator[Step]:
        """The steps of a window, in order."""
        self._calls.extend(window.plain)
        self._states.extend(window.states)
        for call in window.named("step"):
            index = optimizer_number(call)
            since = self._last.get(index, -1)
            before = [one for one in self._calls if since < one.q < call.q]
            states = [one for one in self._states if since < one.q]
            owned = [one for one in states if _of(one, index, window)]
            count = self._counts.get(index, 0)
            yield Step(
                call,
                index,
                count,
                before,
                _last(owned, "before_step", "gradient", call.q),
                _last(owned, "before_step", "parameter", call.q),
                _first(owned, "after_step", "parameter", call.q),
                [one for one in states if one.moment == "before_backward" and one.q < call.q],
            )
            self._counts[index] = count + 1
            self._last[index] = call.e
        oldest = min(self._last.values(), default=-1)
        if len(self._calls) > 64 or len(self._states) > 16:
            self._calls = [one for one in self._calls if one.q > oldest][-_MOST_CALLS:]
            self._states = [one for one in self._states if one.q > oldest][-_MOST_STATES:]


def steps_of(window: Window) -> list[Step]:
    """The steps of a window; the windows of a rank must be asked for in order."""
    if window.steps is None:
        if window.run.follower is None:
            window.run.follower = Steps()
        window.steps = list(window.run.follower.see(window))
    found: list[Step] = window.steps
    return found


def _of(state: State, optimizer: int, window: Window) -> bool:
    """Whether a state is of the variables of an optimizer."""
    if state.extra and "optimizer" in state.extra:
        return bool(state.extra["optimizer"] == optimizer)
    known = window.run.variables.get(state.ids[0]) if state.ids else None
    return known is not None and known.optimizer == optimizer


def _last(states: list[State], moment: str, what: str, before: int) -> State | None:
    found = [one for one in states if one.moment == moment and one.what == what and one.q < before]
    return found[-1] if found else None


def _first(states: list[State], moment: str, what: str, after: int) -> State | None:
    return next((one for one in states if one.moment == moment and one.what == what and one.q > after), None)
