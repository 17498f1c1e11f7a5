"""Weights stay between steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.views.values import Value, differ, values_of
from preflight.monitor.window import State, Window

_QUIET = 5
"""Gaps between steps without a change by another hand, after which one is a surprise."""
_MARKED = 0.01
_FEW = 0.25
"""Share of the parameters: averaging, swapping and restoring concern more."""


class _Suspicion(NamedTuple):
    """A change that is reported once as many gaps as it needs were quiet after it."""

    names: tuple[str, ...]
    step: int
    iteration: int
    needs: int


class WeightsBetweenSteps(Relation):
    """Between two steps of their optimizer, parameters stay as they are.

    Programs may have a second hand that changes weights: clamping, averaging over ranks, moving averages, restored or loaded
    weights. It does so from the beginning or again and again, concerns all parameters or is a call that is seen.
    Parameters that need no gradient, such as prototypes beside what is trained, are the program's own to change.
    What is reported is the first change after a quiet time, of a few parameters, without such a call: damaged memory,
    a write through an alias, an edit that was meant for a copy. Single numbers (a learned temperature) may be clamped.
    Where two tensors and more change by a hundredth at once, a layer was made anew, or dead units were.
    A change that only makes a parameter smaller may be the first of a constraint that begins to hold, and is reported
    when the next gap is quiet again. Where a single quiet gap was missing before a change, as where recording is thinned
    after five iterations, as many must follow it instead, and it is reported then.
    """

    name = "weights-between-steps"
    midway = True
    needs = frozenset({"step", "state", "load_state_dict", "collective"})
    wakes = frozenset({"parameters before a step"})
    priority = 13
    cause = "something other than the optimizer writes to the parameters: an alias or view that is changed in place, a hook, faulty memory"
    advice = "search for in-place changes under no_grad() or through .data, and compare the parameter after a step with that before the next"

    def __init__(self) -> None:
        self._quiet: dict[int, int] = {}
        self._hand: set[int] = set()
        self._suspected: dict[int, _Suspicion] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for step in steps_of(window):
            if step.before is not None and step.left is not None and step.optimizer not in self._hand:
                yield from self._judge(step, step.left, window)

    def _judge(self, step: Step, after: State, window: Window) -> Iterator[Example]:
        assert step.before is not None
        known: dict[int, Value] = {}
        now: dict[int, Value] = {}
        if (after.ids, after.norm, after.bits) != (step.before.ids, step.before.norm, step.before.bits):
            known, now = values_of(after), values_of(step.before)
        changed = [ident for ident, value in now.items() if ident in known and differ(known[ident], value)]
        index = step.optimizer
        if not changed:
            self._quiet[index] = self._quiet.get(index, 0) + 1
            if index in self._suspected and self._quiet[index] >= self._suspected[index].needs:
                suspicion = self._suspected.pop(index)
                yield self._example(step, suspicion.names, window, suspicion)
            else:
                yield self._example(step, (), window)
            return
        variables = window.run.variables
        large = [one for one in changed if one in variables and variables[one].numel > 1 and variables[one].trainable]
        explained = any(
            call.name in ("load_state_dict", "step") or call.name.startswith("collective.") for call in step.between
        )
        marked = [one for one in large if _share(known[one][0], now[one][0]) >= _MARKED]
        explained = explained or (len(changed) > 1 and bool(marked))
        quiet = self._quiet.get(index, 0)
        if explained or quiet < _QUIET - 1 or len(changed) > max(1, _FEW * len(now)) or not large:
            self._suspected.pop(index, None)
            if not explained and large:
                self._hand.add(index)
            return
        if index in self._suspected:
            self._hand.add(index)
            del self._suspected[index]
            return
        self._quiet[index] = 0
        names = tuple(window.run.name(ident) for ident in large)
        if quiet < _QUIET or all((now[ident][0] or 0.0) <= (known[ident][0] or 0.0) for ident in large):
            needs = 1 if quiet >= _QUIET else _QUIET
            self._suspected[index] = _Suspicion(names, step.call.s, window.iteration, needs)
        else:
            yield self._example(step, names, window)

    @staticmethod
    def _example(step: Step, names: tuple[str, ...], window: Window, earlier: _Suspicion | None = None) -> Example:
        when = f"before step {earlier.step}" if earlier is not None else "between two steps"
        since = ", and none since" if earlier is not None else ""
        return Example(
            (),
            not names,
            {"optimizer": step.kind},
            variables=names,
            expected="the values that the step before left",
            seen=f"{len(names)} parameter{'s were' if len(names) > 1 else ' was'} changed {when}{since}"
            if names
            else None,
            call=step.call,
            began=None if earlier is None else earlier.iteration,
            detail=f"Parameters were changed {when} by something other than an optimizer" if names else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _written([0.0] * 9)
        yield _written([0.0] * 6 + [-0.1, -0.1, -0.1])
        yield _written([0.0] * 3 + [0.1] * 6)
        yield _written([0.0] * 6 + [0.1, 0.0], trainable=False)
        yield _written([0.0] * 6 + [0.1, 0.0], tensors=2)  # a layer that is made anew
        yield _written([0.0] + ([0.0] * 4 + [0.1]) * 4)  # a hand that writes at every fifth step
        yield _written([0.0] * 5 + [0.1] + [0.0] * 4)  # too few quiet gaps before it and after

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _written([0.0] * 6 + [0.1, 0.0])
        yield _written([0.0] * 6 + [-0.1, 0.0])
        yield _written([0.0] * 5 + [0.1] + [0.0] * 5)


def _share(old: float | None, new: float | None) -> float:
    """By how much of itself a norm has changed."""
    return abs(new - old) / max(old, new) if old and new else 0.0


def _written(changes: list[float], trainable: bool = True, tensors: int = 1) -> list[Window]:
    """Gaps in which the first of nine parameters change by so much."""
    names = [f"model.{number}.weight" for number in range(9)]
    mini = Mini({name: {"trainable": trainable or name != names[0]} for name in names})
    found, value = [], 1.0
    for change in changes:
        before = {name: value + (change if name in names[:tensors] else 0.0) for name in names}
        value += 0.01
        found.append(mini.window(("before", before), "step optimizer0:SGD", ("after", dict.fromkeys(names, value))))
    return found
