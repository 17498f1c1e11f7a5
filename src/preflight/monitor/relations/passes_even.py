"""Steps are made of as many passes as the steps around them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import Window

_EVEN, _UNEVEN = "as many passes", "another number of passes"


class PassesEven(Relation):
    """An optimizer whose steps are all made of the same number of backward passes goes on so.

    How many passes make a step is a setting; that all steps of a run are made of as many is a habit: a condition that is turned
    round, or a counter that is reset in the wrong place, steps after one pass and then after three. Compared are two
    steps of an optimizer in a row, for each place that calls ``backward`` before both of them: networks that are trained now and then
    come and go. Left out are steps around which a pass through a loader begins, because what is left over at the end of
    the data is less, and those for which no loader gave anything, because the end of their data is not seen; those that come
    after a step that a gradient scaler skipped, and those whose optimizer computes its gradients itself. Of a run in which
    one step differs nothing is learnt.
    """

    name = "passes-even"
    fields = ("optimizer",)
    needs = frozenset({"step", "backward", "loop", "fetch"})
    wakes = frozenset({"step"})
    severity = "warning"
    priority = 43
    learns = True
    cause = "the condition or the counter that decides when to step is another than in the runs this was learnt from"
    advice = "look at the condition of optimizer.step(), and at where its counter is reset"

    def __init__(self) -> None:
        self._before: dict[int, Counter[str] | None] = {}
        self._waiting: dict[int, Example] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for step in steps_of(window):
            waiting = self._waiting.pop(step.optimizer, None)
            skipped = len(step.named("scaler.step")) > 1
            if step.named("loop") or not step.named("fetch") or step.closure or skipped:
                self._before[step.optimizer] = None
                continue
            if waiting is not None:  # no pass through the data ended behind it
                yield waiting
            self._compare(step)

    def _compare(self, step: Step) -> None:
        counts = Counter(call.place or "" for call in step.named("backward"))
        before = self._before.get(step.optimizer)
        self._before[step.optimizer] = counts if step.done else None
        both = [place for place in counts if before and place in before]
        if before is None or not both:
            return
        odd = next((place for place in both if counts[place] != before[place]), None)
        value = _EVEN if odd is None else _UNEVEN
        variables = (step.call.object,)
        self._waiting[step.optimizer] = Example((step.kind,), True, {}, variables, call=step.call, value=value)

    @classmethod
    def trivial(cls, subject: Mapping[str, Any]) -> bool:
        return subject.get("value") != _EVEN

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        return f"Each step of {subject.get('optimizer')} is made of {subject.get('value', _EVEN)} as the one before"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(2, 2, 2, 2, 2, 2, 2, 2)
        yield _run(4, 4, 4, 4, 4, 4, 4, 4)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(1, 1, 2, 1, 1, 2, 1, 1)


def _run(*counts: int) -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [mini.window(*["fetch loader0", "backward"] * count, "step optimizer0:SGD") for count in counts]
