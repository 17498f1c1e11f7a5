"""Weights that were exchanged for an evaluation are put back."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.views.values import CLOSE, differ, values_of
from preflight.monitor.window import State, Window
from preflight.vocabulary.counted import counted

_QUIET = 5
"""Gaps between steps without a change by another hand, after which one is a surprise."""
_NEARLY_ALL = 0.9
_ROUGH = 1e-3
_EXPLAINED = ("load_state_dict", "step")


class WeightsPutBack(Relation):
    """After an evaluation, training goes on with the weights that the last step left.

    An evaluation with averaged weights exchanges all weights of the model, and puts them back. Where that is forgotten,
    training goes on from the average: the optimizer's state belongs to other weights, and progress is thrown away.
    Broken where nearly all parameters of an optimizer were written to between two steps that an evaluation of their model
    lies between, after at least five gaps in which they were not, and by no call that says so (``load_state_dict``, an
    average over ranks). A program that writes to its weights at other times, too, is left alone, and so is one whose
    weights came back but for their rounding, as optimizers bring them that compute both sets from each other.
    """

    name = "weights-put-back"
    midway = True
    needs = frozenset({"step", "state", "forward", "load_state_dict"})
    wakes = frozenset({"parameters before a step"})
    severity = "warning"
    priority = 12
    cause = "averaged weights were copied into the model for an evaluation, and the trained ones were not copied back"
    advice = "restore the stored weights after the evaluation, or evaluate a copy of the model"

    def __init__(self) -> None:
        self._quiet: dict[int, int] = {}
        self._hand: set[int] = set()

    def see(self, window: Window) -> Iterator[Example]:
        for step in steps_of(window):
            if step.before is not None and step.left is not None and step.optimizer not in self._hand:
                yield self._judge(step, step.left, window)

    def _judge(self, step: Step, after: State, window: Window) -> Example:
        assert step.before is not None
        changed = _changed(after, step.before)
        index = step.optimizer
        wrong = False
        if changed:
            said = any(call.name in _EXPLAINED or call.name.startswith("collective.") for call in step.between)
            quiet = self._quiet.get(index, 0) >= _QUIET
            far = _far(after, step.before, window)
            most = len(far) >= _NEARLY_ALL * len(step.before.ids) and len(far) > 1
            wrong = not said and quiet and most and _evaluated(step, window)
            if not said:
                self._hand.add(index)  # once is told; a hand that writes again and again is meant
        else:
            self._quiet[index] = self._quiet.get(index, 0) + 1
        names = tuple(window.run.name(ident) for ident in changed) if wrong else ()
        return Example(
            (),
            not wrong,
            {"optimizer": step.kind},
            variables=names,
            expected="the weights that the step before left",
            seen=counted(
                len(names),
                "parameter is another than before the evaluation",
                "parameters are others than before the evaluation",
            )
            if wrong
            else None,
            call=step.call,
            detail="Training goes on with weights that were put in for an evaluation" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([0.0] * 9, evaluated=True)
        yield _run([0.0] * 6 + [0.1, 0.0], evaluated=False)
        yield _run([0.0, 0.1] * 4, evaluated=True)
        yield _run([0.0] * 7 + [1e-7, 0.0], evaluated=True, exact=True)  # other bits, from rounding

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([0.0] * 7 + [0.1, 0.0], evaluated=True)


def _changed(one: State, other: State) -> list[int]:
    """Variables that have other values in two states, as far as both tell."""
    if one.ids != other.ids or (one.norm == other.norm and one.bits == other.bits):
        return []
    before, now = values_of(one), values_of(other)
    return [ident for ident in one.ids if differ(before[ident], now[ident])]


def _far(one: State, other: State, window: Window) -> list[int]:
    """Variables whose norms differ by more than rounding to their kinds of numbers can explain."""
    found = []
    for ident, norm, now in zip(one.ids, one.norm, other.norm, strict=True):
        known = window.run.variables.get(ident)
        rounding = CLOSE if known is not None and known.dtype in ("float32", "float64") else _ROUGH
        if norm is not None and now is not None and abs(norm - now) > rounding * max(abs(norm), abs(now)):
            found.append(ident)
    return found


def _evaluated(step: Step, window: Window) -> bool:
    """Whether the model of a step's optimizer ran in evaluation mode without gradients since the step before."""
    roots = step.owned(window)
    return any(
        call.object.split(".")[0] in roots
        and not (call.context or "").startswith("grad")
        and not (call.args or {}).get("training", True)
        for call in step.named("forward")
    )


def _run(changes: list[float], evaluated: bool, exact: bool = False) -> list[Window]:
    names = ["model.a.weight", "model.b.weight"]
    mini = Mini({name: {} for name in names})
    look = ("forward model", {"context": "nograd", "args": {"training": not evaluated}})
    found, value = [], 1.0
    for change in changes:
        values = value + change, value + 0.01
        value += 0.01
        before, after = (dict.fromkeys(names, (one, round(one * 1e9)) if exact else one) for one in values)
        step = (("before", before), "step optimizer0:SGD", ("after", after))
        found.append(mini.window(look, "backward", *step))
    return found
