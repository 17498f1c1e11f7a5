"""Parameters change only in steps."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.steps import Step, steps_of
from preflight.monitor.window import State, Window

_USUAL = 4
"""Intervals between steps in which a parameter has to stay as it was before its changes count as unusual."""
_CLOSE = 1e-6
_EXPLAINED = ("load", "load_state_dict", "wrap.", "collective.", "no_sync", "add_param_group")


class ChangesOnlyInSteps(Relation):
    """The parameters of an optimizer are the same at its next step as after its last one.

    What else writes to them between two steps is another hand: code that keeps an alias of the weights, a faulty copy
    to or from the device, memory that is overwritten. Fingerprints show any bit, norms a change of a millionth.
    A program's own habit is none: parameters that were changed between steps from the beginning (clamped weights,
    masks, projections) are left alone, and so are intervals with a load, a collective or a wrapper, which may write.
    """

    name = "changes-only-in-steps"
    needs = frozenset({"step", "state", "load_state_dict"})
    priority = 12
    cause = (
        "something other than the optimizer writes to the weights: an alias, a copy from another place, faulty memory"
    )
    advice = (
        "look for writes to these parameters outside optimizer.step(); on one rank alone, test that device's memory"
    )

    def __init__(self) -> None:
        self._after: dict[int, State] = {}
        self._quiet: dict[str, int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for step in steps_of(window):
            last = self._after.pop(step.optimizer, None)  # of the step right before, or none
            if step.after is not None:
                self._after[step.optimizer] = step.after
            if last is None or step.before is None or step.before.q < last.q:
                continue
            if any(call.name.startswith(_EXPLAINED) for call in step.between):
                continue
            yield from self._judge(step, step.before, last, window)

    def _judge(self, step: Step, now: State, last: State, window: Window) -> Iterator[Example]:
        changed = _changed(last, now, window)
        known = [name for name, _ in changed.items() if self._quiet.get(name, 0) >= _USUAL]
        wrong = tuple(name for name in known if changed[name])
        for name, differs in changed.items():
            if not differs:
                self._quiet[name] = self._quiet.get(name, 0) + 1
            elif name not in known:
                self._quiet[name] = -1_000_000  # the program's habit
        if not known:
            return
        exact = last.bits is not None and now.bits is not None
        yield Example(
            (),
            not wrong,
            {"level": "exact" if exact else "norm"},
            variables=wrong,
            expected="the values that the last step left",
            seen=f"{len(wrong)} of {len(known)} parameters have changed since" if wrong else None,
            call=step.call,
            detail="Parameters were changed between two steps, as they never were before" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.a": {}, "model.clamped": {}})
        yield [
            mini.window(
                ("before", {"model.a": (1.0, 10 + n), "model.clamped": (2.0, 30 + n)}),
                "step optimizer0:SGD",
                ("after", {"model.a": (1.0, 11 + n), "model.clamped": (2.5, 90 + n)}),
            )
            for n in range(8)
        ]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.a": {}})
        windows = [
            mini.window(
                ("before", {"model.a": (1.0, 10 + n)}), "step optimizer0:SGD", ("after", {"model.a": (1.0, 11 + n)})
            )
            for n in range(6)
        ]
        yield [*windows, mini.window(("before", {"model.a": (1.0, 99)}), "step optimizer0:SGD")]


def _changed(last: State, now: State, window: Window) -> dict[str, bool]:
    """Whether each parameter differs between the two moments."""
    old = {ident: position for position, ident in enumerate(last.ids)}
    found: dict[str, bool] = {}
    for position, ident in enumerate(now.ids):
        before = old.get(ident)
        if before is None:
            continue
        bits = (last.bits[before] if last.bits else None, now.bits[position] if now.bits else None)
        if bits[0] is not None and bits[1] is not None:
            found[window.run.name(ident)] = bits[0] != bits[1]
            continue
        norms = (last.norm[before], now.norm[position])
        if norms[0] is None or norms[1] is None or norms[0] != norms[0] or norms[1] != norms[1]:
            continue
        found[window.run.name(ident)] = abs(norms[0] - norms[1]) > _CLOSE * max(abs(norms[0]), abs(norms[1]))
    return found
