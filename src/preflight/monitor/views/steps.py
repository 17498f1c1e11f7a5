"""The steps of optimizers in the windows of a run: what happened since the step before, and the state around each."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import lru_cache

from preflight.monitor.window import Call, State, Window

_MOST_CALLS = 2000  # of an optimizer that no longer steps, nobody asks what happened since
_MOST_STATES = 200


class Step:
    """One step of one optimizer.

    Attributes:
        call: The step.
        optimizer: Its number.
        kind: The optimizer's class.
        done: How many steps it did before.
        closure: Whether the step computes its gradients itself.
        between: All calls of the process since its step before, in order; without those inside the step itself.
        gradients: The gradients just before.
        before: Its parameters just before, where they were taken.
        after: Its parameters just after.
        left: Those just after its step before.
        cleared: States of gradients when a backward pass began since its step before.
        since: The number at which its step before ended, -1 without one.
    """

    __slots__ = (
        *("_by_name", "after", "before", "between", "call", "cleared", "closure"),
        *("done", "gradients", "kind", "left", "optimizer", "since"),
    )

    def __init__(self, call: Call, optimizer: int, done: int, since: int, between: list[Call]) -> None:
        self.call = call
        self.optimizer = optimizer
        self.kind = _kind(call.object)
        self.done = done
        self.since = since
        self.closure = bool((call.args or {}).get("closure"))
        self.between = between
        self.gradients: State | None = None
        self.before: State | None = None
        self.after: State | None = None
        self.left: State | None = None
        self.cleared: list[State] = []
        self._by_name: dict[str, list[Call]] | None = None

    @property
    def signs(self) -> list[str]:
        """Which states around it are known, in words (see signs.py)."""
        words = ["gradients of a step"] if self.gradients is not None else []
        if self.before is not None:
            words.append("parameters before a step")
        if self.after is not None:
            words.append("parameters after a step")
        return words

    def named(self, name: str) -> list[Call]:
        """The calls of a name since the step before; not to be changed."""
        if self._by_name is None:
            found: dict[str, list[Call]] = {}
            for call in self.between:
                found.setdefault(call.name, []).append(call)
            self._by_name = found
        return self._by_name.get(name, [])

    @property
    def turn(self) -> list[Call]:
        """The calls since the step before that are no other optimizer's turn.

        Where others stepped before the last backward pass, as a critic does several times, what came before is theirs.
        """
        last = next((one.q for one in reversed(self.between) if one.name in ("backward", "autograd.grad")), -1)
        other = next((one.e for one in reversed(self.between) if one.name == "step" and one.q < last), -1)
        return [one for one in self.between if one.q > other] if other >= 0 else self.between

    def owned(self, window: Window) -> set[str]:
        """Names of the roots of its variables."""
        return window.run.roots(self.optimizer)

    def clearing(self, window: Window) -> list[Call]:
        """The calls since the step before that clear its gradients."""
        roots = self.owned(window)
        return [call for call in self.named("zero_grad") if self.clears(call, roots)]

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


@lru_cache(maxsize=4096)
def _kind(subject: str) -> str:
    return subject.split(":")[-1]


class Steps:
    """Follows the windows of one rank and finds the steps in them.

    Attributes:
        made: How many steps were made so far, of all optimizers.
    """

    def __init__(self) -> None:
        self.made = 0
        self._calls: list[Call] = []
        self._numbers: list[int] = []  # of the calls
        self._in_order = True
        self._states: list[State] = []
        self._late: list[State] = []  # of these, such as came after the last steps of all optimizers
        self._counts: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._left: dict[int, State | None] = {}  # by optimizer: what its last step left

    def see(self, window: Window) -> list[Step]:
        """The steps of a window, in order."""
        self._take(window)
        found = []
        for call in window.named("step"):
            index = optimizer_number(call)
            since = self._last.get(index, -1)
            count = self._counts.get(index, 0)
            step = Step(call, index, count, since, self._between(since, call.q))
            step.left = self._left.get(index)
            if self._late or since < 0:
                self._around(step, window)
            found.append(step)
            self._counts[index] = count + 1
            self._last[index] = call.e
            self._left[index] = step.after
        self.made += len(found)
        self._forget()
        return found

    def _take(self, window: Window) -> None:
        numbers = [call.q for call in window.plain]
        if numbers and self._numbers and numbers[0] <= self._numbers[-1]:
            self._in_order = False  # threads of one process may tell of two iterations at once
        self._calls += window.plain
        self._numbers += numbers
        if window.states:
            self._states += window.states
            self._late += window.states

    def _between(self, since: int, until: int) -> list[Call]:
        if self._in_order:
            return self._calls[bisect_right(self._numbers, since) : bisect_left(self._numbers, until)]
        return [one for one in self._calls if since < one.q < until]

    def _around(self, step: Step, window: Window) -> None:
        """Find the states before and after a step among those since the one before."""
        number, since = step.call.q, step.since
        for state in self._late if since >= 0 else self._states:
            if state.q <= since:
                continue
            if state.moment == "before_backward":
                if state.q < number:
                    step.cleared.append(state)
            elif state.moment == "before_step":
                if state.q < number and state.what in ("gradient", "parameter") and _of(state, step.optimizer, window):
                    if state.what == "gradient":
                        step.gradients = state
                    else:
                        step.before = state
            elif state.moment == "after_step" and state.what == "parameter" and state.q > number and step.after is None:
                step.after = state if _of(state, step.optimizer, window) else None

    def _forget(self) -> None:
        """Keep what came after the oldest of the last steps."""
        oldest = min(self._last.values()) if self._last else -1
        if self._late:
            self._late = [one for one in self._late if one.q > oldest][-_MOST_STATES:]
        if len(self._calls) <= 64 and len(self._states) <= 16:
            return
        if self._in_order:
            gone = max(bisect_right(self._numbers, oldest), len(self._numbers) - _MOST_CALLS)
            del self._calls[:gone], self._numbers[:gone]
        else:
            self._calls = [one for one in self._calls if one.q > oldest][-_MOST_CALLS:]
            self._numbers = [one.q for one in self._calls]
            self._in_order = all(map(int.__lt__, self._numbers, self._numbers[1:]))
        self._states = [one for one in self._states if one.q > oldest][-_MOST_STATES:]


def steps_of(window: Window) -> list[Step]:
    """The steps of a window; the windows of a rank must be asked for in order."""
    if window.steps is None:
        if window.run.follower is None:
            window.run.follower = Steps()
        window.made = window.run.follower.made
        window.steps = window.run.follower.see(window)
    found: list[Step] = window.steps
    return found


def _of(state: State, optimizer: int, window: Window) -> bool:
    """Whether a state is of the variables of an optimizer."""
    if state.extra and "optimizer" in state.extra:
        return bool(state.extra["optimizer"] == optimizer)
    known = window.run.variables.get(state.ids[0]) if state.ids else None
    return known is not None and known.optimizer == optimizer
