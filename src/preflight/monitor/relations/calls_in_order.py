"""The calls of a step come in the same order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.relations.step_contains import CALLS, THEN, mine, spoken
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import Window

_ONCE = ("zero_grad", "backward")
"""Of these the first comes once before all of the second: over how many passes gradients are accumulated is a setting."""


@lru_cache(maxsize=1024)
def _pairs(line: tuple[str, ...]) -> tuple[tuple[tuple[str, str], bool], ...]:
    """Every two names of a line of calls, and whether the second ever comes without the first since it came last."""
    latest: dict[str, int] = {}
    missing: dict[tuple[str, str], bool] = {}
    for place, then in enumerate(line):
        since = latest.get(then, -1)
        for first in set(line):
            if then not in THEN.get(first, ()):
                continue
            after = -1 if (first, then) == _ONCE else since
            ahead = first == "fetch" and line[:place].count(first) > line[:place].count(then)
            gone = latest.get(first, -1) <= after and not ahead
            missing[first, then] = missing.get((first, then), False) or gone
        latest[then] = place
    return tuple(sorted(missing.items()))


class CallsInOrder(Relation):
    """Before each call of one kind there is one of another since the call before.

    For two calls of a training loop of which one hands what it made to the other, and that belong to the same optimizer
    or to none in particular: whether the second is always preceded by the first. A forward pass after a batch, a backward
    pass after a forward pass, clipping after the backward pass and after unscaling. Gradients are cleared before the first
    backward pass of a step; before others they need not be, because they may be accumulated. Several batches may be fetched
    ahead, as many as are accumulated.
    Calls of which neither needs the other (clearing gradients and the forward pass) may stand in any order.
    """

    name = "calls-in-order"
    fields = ("optimizer", "first", "then")
    needs = frozenset({"step", *CALLS})
    wakes = frozenset({"step"})
    severity = "warning"
    priority = 42
    learns = True
    cause = "two calls of the training loop have changed places, or one of them is missing"
    advice = "compare the order of the calls with the loop this was learnt from"

    def see(self, window: Window) -> Iterator[Example]:
        for step in steps_of(window):
            if step.done:
                yield from self._judge(step)

    @staticmethod
    def _judge(step: Step) -> Iterator[Example]:
        kind = step.call.object.split(":")[-1]
        line = [call.name for call in step.between if call.name in CALLS and mine(call, step)]
        context = {"closure": step.closure}
        for (first, then), wrong in _pairs(tuple(line)):
            if not wrong:
                yield Example((kind, first, then), True, context)
                continue
            yield Example(
                (kind, first, then),
                False,
                context,
                variables=(step.call.object,),
                expected=f"{spoken(first)} before {spoken(then)}",
                seen=f"{spoken(then)} without {spoken(first)} before it",
                call=step.call,
            )

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        first, then = spoken(subject.get("first")), spoken(subject.get("then"))
        which = "the first" if (subject.get("first"), subject.get("then")) == _ONCE else "each"
        return f"{first} comes before {which} {then} of {subject.get('optimizer')}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", "clip_grad_norm", "step optimizer0:SGD") for _ in range(8)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        first = [mini.window("backward", "clip_grad_norm", "step optimizer0:SGD") for _ in range(8)]
        yield [*first, mini.window("clip_grad_norm", "backward", "step optimizer0:SGD")]
