"""Schedules are of the kind, and clipping has the limit, that they had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation, values_of
from preflight.monitor.views.options import numbers_of
from preflight.monitor.views.resumed import is_resumed
from preflight.monitor.views.steps import steps_of
from preflight.monitor.window import Call, Window

_LOOKS = 3
_MOST_LOOKS = 8
_LIMITS = {"clip_grad_norm": "max_norm", "clip_grad_value": "clip_value"}
_SCHEDULES, _NORM = "schedules", "norm_type"
_FAR = 10.0
"""How many times another limit must be what it was, to be told: how strictly is clipped is a setting, whether at all is none."""


class SettingsAlike(Relation):
    """The schedules of an optimizer are of the kinds, and clipping is by the norm and the limit, of the runs this was learnt from.

    Learnt is of each kind of optimizer which kinds of schedules were made for it, in the first steps; and of each place that
    clips its limit and its norm, where these are the same in the first three passes. A limit that the command
    line chose is a setting, and over how many steps a schedule goes is one, too. So is another limit of the same size: it
    is told where it is ten times what it was, or a tenth.
    A run that goes on with the state of an optimizer is not judged.
    """

    name = "settings-alike"
    fields = ("of", "what")
    needs = frozenset({"scheduler.new", "step", "backward", "load_state_dict", *_LIMITS})
    wakes = frozenset({"scheduler.new", "step", "backward", "load_state_dict", *_LIMITS})
    severity = "warning"
    priority = 47
    learns = True
    bounded = True
    least = 2
    support = 2
    cause = (
        "another kind of schedule is made, or clipping is given another limit, than in the runs this was learnt from"
    )
    advice = "look at what the schedule and the clipping are made with"

    def __init__(self) -> None:
        self._kinds: dict[str, set[str]] = {}
        self._steps = 0
        self._places: dict[tuple[str, str], str] = {}
        self._limits: dict[tuple[str, str], list[Any]] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("scheduler.new"):
            optimizer = str((call.args or {}).get("optimizer")).rpartition(":")[2]
            self._kinds.setdefault(optimizer, set()).add(call.object)
        if is_resumed(window):
            return
        for name, word in _LIMITS.items():
            for call in window.named(name):
                yield from self._clips(call, word, window)
        steps = steps_of(window)
        self._steps += bool(steps)
        # A schedule may be made after the first steps; one that takes over later is a plan's.
        for kind in {step.kind: None for step in steps} if _LOOKS <= self._steps <= _MOST_LOOKS else ():
            value = " and ".join(sorted(self._kinds.get(kind, ()))) or "none"
            yield Example((kind, _SCHEDULES), True, {}, (kind,), call=steps[-1].call, value=value)

    def _clips(self, call: Call, word: str, window: Window) -> Iterator[Example]:
        """The limit and the norm of a place, by the order in which places that clip come first."""
        place = (call.name, call.place or "")
        which = self._places.setdefault(place, f"{call.name} number {len(self._places) + 1}")
        told = call.args or {}
        seen = self._limits.setdefault(place, [])
        if len(seen) >= _MOST_LOOKS:
            return
        seen.append((told.get(word), told.get(_NORM)))
        if len(seen) < _LOOKS or len(set(seen)) > 1:
            return
        limit, norm = seen[0]
        if isinstance(limit, (int, float)) and isfinite(limit) and abs(limit) not in numbers_of(window):
            yield Example((which, word), True, {}, (call.name,), call=call, value=float(limit))
        if isinstance(norm, (int, float)) and isfinite(norm):
            yield Example((which, _NORM), True, {}, (call.name,), call=call, value=float(norm))

    @classmethod
    def expected_of(cls, subject: Mapping[str, Any], value: Any) -> str | None:
        known = values_of(subject)
        near = subject.get("what") in _LIMITS.values()
        if not known or any(_alike(one, value) if near else one == value for one in known):
            return None
        return " or ".join(map(str, known))

    @classmethod
    def trivial(cls, subject: Mapping[str, Any]) -> bool:
        return subject.get("value") == "none"  # a schedule may be an option

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        value = " or ".join(map(str, values_of(subject)))
        if subject.get("what") == _SCHEDULES:
            return f"The schedule of {subject.get('of')} is {value}"
        return f"{subject.get('of')} has the {subject.get('what')} {value}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(1.0, "CosineAnnealingLR")

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(100.0, "CosineAnnealingLR")
        yield _run(1.0, "StepLR")


def _alike(one: float, other: float) -> bool:
    """Whether two limits are of one size."""
    return one == other or (one * other > 0 and 1 / _FAR < one / other < _FAR)


def _run(limit: float, schedule: str) -> list[Window]:
    mini = Mini({"model.weight": {}})
    made = (f"scheduler.new {schedule}", {"args": {"optimizer": "optimizer0:SGD"}})
    clip = ("clip_grad_norm", {"args": {"max_norm": limit, "norm_type": 2.0}})
    return [mini.window(*([] if number else [made]), "backward", clip, "step optimizer0:SGD") for number in range(6)]
