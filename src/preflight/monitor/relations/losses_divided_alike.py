"""Losses that are accumulated are divided as they were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.resumed import is_resumed
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.views.tails import without_scale
from preflight.monitor.window import Call, Window

_LOOKS = 3
"""Looks at the passes of one place before it is said of it; what differs within them is not said at all."""
_MOST_TOLD = 6
_DIVIDED, _WHOLE = "divided or multiplied as a whole", "passed back as it is"


class LossesDividedAlike(Relation):
    """A loss of which several passes make a step is divided where it was divided in the runs this was learnt from.

    ``loss / accumulation`` stands in most programs that accumulate, also where a setting makes it a division by one. Where
    it is gone, the gradients of a step are as many times larger as there are passes. Learnt is of each place that calls
    ``backward`` whether the loss ends in a product or a division that is of all of it, by how many need not be known. Of a
    program that does not, nothing is learnt; nor is a run judged whose steps are made of one pass, since many programs divide
    only then; nor one whose loss a scaler scales, which leaves such an end itself, nor one that goes on with the state of an
    optimizer.
    """

    name = "losses-divided-alike"
    fields = ("which",)
    needs = frozenset({"backward", "step", "load_state_dict", "scaler.scale"})
    wakes = frozenset({"backward", "step", "load_state_dict", "scaler.scale"})
    severity = "warning"
    priority = 39
    learns = True
    least = 2
    support = 2
    cause = "the division by the number of passes is missing, or stands where it does not reach the loss that is passed back"
    advice = "look at what backward() is called on: loss / accumulation"

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._ends: dict[str, set[bool]] = {}
        self._looks: dict[str, int] = {}
        self._told: dict[str, int] = {}
        self._scaled = False

    def see(self, window: Window) -> Iterator[Example]:
        self._scaled = self._scaled or bool(window.named("scaler.scale"))
        if self._scaled or is_resumed(window):
            return
        for call in window.named("backward"):
            self._take(call)
        for step in steps_of(window):
            yield from self._judge(step)

    def _take(self, call: Call) -> None:
        place, told = call.place or "", (call.args or {}).get("tail")
        self._places.setdefault(place, len(self._places))
        self._looks[place] = self._looks.get(place, 0) + 1
        if told:
            self._ends.setdefault(place, set()).add(without_scale(told)[1])

    def _judge(self, step: Step) -> Iterator[Example]:
        passes = step.named("backward")
        places = [call.place or "" for call in passes]
        for place, call in dict(zip(places, passes, strict=True)).items():
            ends, told = self._ends.get(place, set()), self._told.get(place, 0)
            if len(ends) != 1 or self._looks[place] < _LOOKS or told >= _MOST_TOLD:
                continue
            self._told[place] = told + 1
            value = _DIVIDED if True in ends else _WHOLE
            if value == _DIVIDED or places.count(place) > 1:
                yield Example((self._places[place],), True, {}, ("loss",), call=call, value=value)

    @classmethod
    def trivial(cls, subject: Mapping[str, Any]) -> bool:
        return bool(subject.get("value") != _DIVIDED)

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        which = subject.get("which")
        return f"The loss{f' number {which + 1}' if which else ''} is {subject.get('value')} where several passes make a step"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run("Div", 2)
        yield _run("Div", 1)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run("NllLoss", 2)


def _run(end: str, passes: int) -> list[Window]:
    mini = Mini({"model.weight": {}})
    loss = [["NllLoss", [], None, [1]], ["LogSoftmax", [8, 4], 1, [-1]]]
    tail = (
        [[end, [], None, [1, -1]], ["NllLoss", [], None, [2]], ["LogSoftmax", [8, 4], 1, [-1]]]
        if end == "Div"
        else loss
    )
    first: list[Any] = [("backward", {"args": {"tail": tail}}), *["backward"] * (passes - 1)]
    return [mini.window(*one, "step optimizer0:SGD") for one in (first, *[["backward"] * passes] * 5)]
