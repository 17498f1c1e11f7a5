"""The first steps take the learning rates that the dry run saw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import Window
from preflight.vocabulary import prediction


class RatesAsPredicted(Relation):
    """Each of the first steps of an optimizer takes the learning rate that a dry run of the script saw at that step.

    `preflight check --dry-run --expectations FILE` writes what it saw. Another rate means other arguments, a schedule
    that counts otherwise (more ranks, other accumulation), or another version of what computes it.
    A run that loads the state of its optimizer begins elsewhere, and one with a gradient scaler may leave steps out:
    both are left alone.
    """

    name = prediction.RATES
    fields = ("optimizer", "step")
    needs = frozenset({"step", "load_state_dict", "scaler.step"})
    wakes = needs
    whole = False
    severity = "warning"
    priority = 12
    predicted = True
    unjudged = "the run did not come to that step, loads the state of its optimizer, or scales its gradients"
    cause = "the run has other arguments than the dry run had, or its schedule counts other steps"
    advice = "compare the two command lines; where the run is right, do the dry run again with its arguments"

    def __init__(self) -> None:
        self._steps: dict[int, int] = {}
        self._elsewhere = False

    def see(self, window: Window) -> Iterator[Example]:
        loads = (call for call in window.named("load_state_dict") if optimizer_number(call) >= 0)
        self._elsewhere = self._elsewhere or bool(window.named("scaler.step")) or any(loads)
        if self._elsewhere:
            return
        after = -1
        for call in window.named("step"):
            number = optimizer_number(call)
            step = self._steps[number] = self._steps.get(number, -1) + 1
            seen = [
                one.value
                for one in window.numbers
                if one.name == "lr" and one.object.startswith(f"{call.object}.") and after < one.q < call.q
            ]
            after = call.q
            known = [rate for rate in seen if rate is not None]
            if known and len(known) == len(seen):
                told = prediction.rates(known)
                detail = f"Step {step} of {call.object} takes the learning rate {told}, and the dry run saw another"
                yield Example((number, step), True, {}, (call.object,), call=call, value=told, detail=detail)

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        return prediction.of_rate(subject)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _steps(0.1, 0.05)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _steps(0.1, 0.1)


def _steps(*rates: float) -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [
        mini.window("backward", ("scalar", "lr", "optimizer0:SGD.0", rate), "step optimizer0:SGD") for rate in rates
    ]
