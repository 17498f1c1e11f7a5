"""Each step comes with the same number of calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.relations.step_contains import mine
from preflight.monitor.steps import steps_of
from preflight.monitor.window import Window

_COUNTED = ("zero_grad", "backward", "clip_grad_norm", "clip_grad_value", "scheduler.step", "scaler.update")


class CallsPerStep(Relation):
    """Between two steps of an optimizer each call of the loop occurs as often as in the runs this was learnt from.

    How many backward passes make a step, how often gradients are cleared, how often the schedule advances: learnt for
    each kind of optimizer, for the calls that occur at all.
    """

    name = "calls-per-step"
    fields = ("optimizer", "call")
    needs = frozenset({"step", *_COUNTED})
    wakes = frozenset({"step"})
    severity = "warning"
    priority = 43
    learns = True
    cause = "a call of the training loop stands inside or outside of a loop in which it did not stand before"
    advice = "compare how often each call is made with the loop this was learnt from"

    def __init__(self) -> None:
        self._known: set[tuple[str, str]] = set()

    def see(self, window: Window) -> Iterator[Example]:
        for step in steps_of(window):
            kind = step.call.object.split(":")[-1]
            counts = dict.fromkeys(_COUNTED, 0)
            for call in step.between:
                if call.name in counts and mine(call, step):
                    counts[call.name] += 1
            for name, count in counts.items():
                if count:
                    self._known.add((kind, name))
                if step.done and (kind, name) in self._known:
                    closure = bool((step.call.args or {}).get("closure"))
                    context = {"closure": closure}
                    yield Example((kind, name), True, context, (step.call.object,), call=step.call, value=count)

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        value = subject.get("value", "one of " + ", ".join(map(str, subject.get("values", ()))))
        return f"{subject.get('call')} occurs {value} times between two steps of {subject.get('optimizer')}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", "backward", "step optimizer0:SGD") for _ in range(8)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        first = [mini.window("backward", "backward", "step optimizer0:SGD") for _ in range(8)]
        yield [*first, mini.window("backward", "step optimizer0:SGD")]
