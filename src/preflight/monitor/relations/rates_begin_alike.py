"""An optimizer steps at a rate above zero from early on, where it did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.options import zero_was_chosen
from preflight.monitor.window import Call, Window

_STEPS = 4
"""Steps after which it is said: a warm-up may begin at zero, and is above it after the first steps."""
_TIMES = 4
"""How often it is said."""
_ABOVE, _ZERO = "a rate above zero", "a rate of zero"


class RatesBeginAlike(Relation):
    """An optimizer steps at a rate above zero within its first four steps, where it did in the runs this was learnt from.

    An optimizer whose rate is zero changes nothing, and the run goes on. By itself that may be meant, as where a pass
    over the data fills running statistics first, so that `rate-above-zero` waits for long; beside a run in which it
    trained it is told early. Learnt of each optimizer by its number. Nothing is said where somebody chose a zero.
    """

    name = "rates-begin-alike"
    fields = ("optimizer",)
    needs = frozenset({"step", "scalar"})
    wakes = frozenset({"step"})
    severity = "warning"
    priority = 30
    learns = True
    least = 2
    support = 2
    cause = "the optimizer was made with a rate of zero, or a schedule holds it there"
    advice = "look at the rate that the optimizer and its schedule are made with"

    def __init__(self) -> None:
        self._rates: dict[str, float] = {}  # the highest one of each optimizer so far
        self._steps: dict[str, int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        calls: dict[str, list[Call]] = {}
        for call in window.named("step"):
            if self._steps.get(call.object, 0) < _STEPS + _TIMES:
                calls.setdefault(call.object, []).append(call)
        if not calls:
            return
        for number in window.numbers:
            if number.name == "lr" and number.value is not None:
                name = number.object.rpartition(".")[0]
                self._rates[name] = max(number.value, self._rates.get(name, 0.0))
        for name, made in calls.items():
            steps = self._steps[name] = self._steps.get(name, 0) + len(made)
            rate = self._rates.get(name)
            if steps >= _STEPS and rate is not None and (rate > 0 or not zero_was_chosen(window.run)):
                value = _ABOVE if rate > 0 else _ZERO
                yield Example((name.partition(":")[0],), True, {}, (name,), call=made[-1], value=value)

    @classmethod
    def trivial(cls, subject: Mapping[str, Any]) -> bool:
        return subject.get("value") != _ABOVE

    @classmethod
    def departure(cls, subject: Mapping[str, Any], value: Any) -> str:
        return f"{subject.get('optimizer')} makes its first steps at {value}"

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        return f"{subject.get('optimizer')} makes its first steps at {subject.get('value')}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(0.1)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(0.0)


def _run(rate: float) -> list[Window]:
    mini = Mini({"model.weight": {}})
    told = [("scalar", "lr", "optimizer0:SGD.0", rate if number else 0.0) for number in range(8)]
    return [mini.window("backward", one, "step optimizer0:SGD") for one in told]
