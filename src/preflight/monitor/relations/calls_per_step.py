"""Each step comes with the same number of calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation, values_of
from preflight.monitor.relations.step_contains import belonging, counts, spoken
from preflight.monitor.views.steps import steps_of
from preflight.monitor.window import Window

_COUNTED = ("zero_grad", "backward", "clip_grad_norm", "clip_grad_value", "scheduler.step", "scaler.update")
_SEVERAL = "several"
_REPEATED = ("backward", "scheduler.step")
"""Of these it is a setting how often one place is passed: gradients are accumulated, a schedule advances for each rank."""


class CallsPerStep(Relation):
    """Between two steps of an optimizer each call of the loop occurs as often as in the runs this was learnt from.

    How many backward passes make a step, how often gradients are cleared, how often the schedule advances: learnt for
    each kind of optimizer, for the calls that occur at all. Where one place in the code is passed more than once, it is
    several times, however many; backward passes and advances of schedules of one place count once, because over how many
    batches gradients are accumulated is a setting, and some schedules advance once for each rank. Calls that name no
    optimizer count in its own turn, because it is a setting, too, how often a critic steps for one step of its generator.
    A schedule is not counted before the first step, nor where a pass through a loader begins between the steps; nor is a
    gradient scaler that is not used. The first step is told apart, because the calls that follow a
    step come after it; it is not judged where an optimizer before it had stepped, whose calls are among those it is told
    with. What a gradient scaler skips is counted with the next step, which is not judged.
    """

    name = "calls-per-step"
    fields = ("optimizer", "call")
    needs = frozenset({"step", "loop", *_COUNTED})
    wakes = frozenset({"step"})
    severity = "warning"
    priority = 43
    learns = True
    cause = "a call of the training loop is missing, or has moved into or out of a loop"
    advice = "compare how often each call is made with the loop this was learnt from"

    def see(self, window: Window) -> Iterator[Example]:
        for step in steps_of(window):
            kind = step.call.object.split(":")[-1]
            found: dict[str, list[str | None]] = {name: [] for name in _COUNTED}
            for call in belonging(step):
                if call.name in found:
                    found[call.name].append(call.place)
            if len(step.named("scaler.step")) > 1 or (window.step and not step.done):
                continue
            context = {"closure": bool((step.call.args or {}).get("closure")), "first": not step.done}
            for name, places in found.items():
                if not counts(name, step):
                    continue
                once = name in _REPEATED or len(places) == len(set(places))
                count = len(set(places)) if once else _SEVERAL
                yield Example((kind, name), True, context, (step.call.object,), call=step.call, value=count)

    @classmethod
    def trivial(cls, subject: Mapping[str, Any]) -> bool:
        return subject.get("value") == 0  # what a program does not do, it need not do

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        often = " or ".join(map(cls.words, values_of(subject)))
        return f"{spoken(subject.get('call'))} occurs {often} between two steps of {subject.get('optimizer')}"

    @classmethod
    def words(cls, value: Any) -> str:
        return {0: "never", 1: "once", 2: "twice"}.get(value) or f"{value} times"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(2)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield [*_run(2), *_run(1)]


def _run(losses: int) -> list[Window]:
    mini = Mini({"model.weight": {}})
    passes = [("backward", {"place": f"train.py:{number}"}) for number in range(losses)]
    return [mini.window(*passes, "step optimizer0:SGD") for _ in range(8)]
