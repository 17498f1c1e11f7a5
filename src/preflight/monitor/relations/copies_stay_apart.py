"""A copy of a network that stays behind it still does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation, values_of
from preflight.monitor.views.copies import Copies
from preflight.monitor.views.options import numbers_of
from preflight.monitor.views.patterns import pattern_of
from preflight.monitor.views.resumed import is_resumed
from preflight.monitor.views.steps import steps_of
from preflight.monitor.window import Window

_SAME = 3
"""Looks that must agree before it is said."""
_EARLY = 8
APART, _ALIKE = "stays behind what it was copied from", "is the same as what it was copied from at each step"


class CopiesStayApart(Relation):
    """A copy that stays behind the network that it was made from is not brought to the same weights with every step.

    An average and a target are of use because they change more slowly than the network. Where ``copy_`` stands in the place
    of ``lerp_``, or the condition of every how many steps is lost, the network is its own target.
    Learnt is of each network that no optimizer steps, whose matrices began as exact copies of trained ones, whether
    all of them are the same in every bit as these before each step, in the first looks and where the trained ones have moved.
    Somebody who chose a one, as of every how many steps, is left alone, and so is a run that goes on with the state of an optimizer.
    """

    name = "copies-stay-apart"
    fields = ("copy",)
    needs = frozenset({"step", "state", "backward", "load_state_dict"})
    wakes = frozenset({"step", "backward", "load_state_dict"})
    severity = "warning"
    priority = 37
    learns = True
    least = 2
    support = 2
    cause = "the copy is overwritten with the trained weights in every step, in place of now and then or by a share"
    advice = "look at the share by which the copy is brought on, and at the condition of every how many steps"

    def __init__(self) -> None:
        self._copies = Copies()
        self._before: dict[int, int] = {}
        self._seen: dict[str, list[str]] = {}

    def see(self, window: Window) -> Iterator[Example]:
        steps = steps_of(window)
        if is_resumed(window) or not steps:
            return
        states = [one for one in window.states if one.moment == "before_step" and one.what == "parameter" and one.bits]
        now: dict[int, int] = {}
        for state in states:
            self._copies.see(state)
            now.update(state.fingerprints)
        found: dict[str, list[bool]] = {}
        for ident in now:
            for original in self._copies.originals(ident, window, True):
                if original.id in now and self._before.get(original.id, now[original.id]) != now[original.id]:
                    root = pattern_of(window.run.variables[ident].root)
                    found.setdefault(root, []).append(now[ident] == now[original.id])
        self._before.update(now)
        for root, same in found.items():
            past = self._seen.setdefault(root, [])
            past.append(_ALIKE if all(same) else APART)
            chosen = past[-1] == _ALIKE and 1.0 in numbers_of(window)
            if _SAME <= len(past) <= _EARLY and len(set(past)) == 1 and not chosen:
                yield Example((root,), True, {}, (root,), call=steps[-1].call, value=past[-1])

    @classmethod
    def trivial(cls, subject: Mapping[str, Any]) -> bool:
        return bool(subject.get("value", _ALIKE) == _ALIKE)

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        return f"{subject.get('copy')} {' or '.join(map(str, values_of(subject)))}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(1)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(0)


def _run(behind: int) -> list[Window]:
    mini = Mini({"model.weight": {}, "target.weight": {"optimizer": -1, "trainable": False}})
    windows = []
    for step in range(_EARLY):
        trained = ("before", {"model.weight": (1.0, step)}, {"optimizer": 0})
        copy = ("before", {"target.weight": (1.0, max(step - behind, 0))}, {"optimizer": -1})
        windows.append(mini.window("backward", trained, copy, "step optimizer0:SGD"))
    return windows
