"""How fingerprints of variables go on: at each look, which are new, which moved and which rested since the one before."""

from __future__ import annotations

from itertools import compress
from operator import eq, ne
from typing import NamedTuple

from preflight.monitor.window import ORDER, State, Window


class Look(NamedTuple):
    """Variables whose fingerprints were looked at together, those apart of which none was taken.

    Attributes:
        state: What was looked at.
        ids: The variables.
        bits: The fingerprint of each.
        fresh: Those that are looked at for the first time.
        moved: Those that are others than at the look before.
        rested: Those that are as they were.
    """

    state: State
    ids: list[int]
    bits: list[int]
    fresh: list[int]
    moved: list[int]
    rested: list[int]


class Fingerprints:
    """Keeps the last fingerprint of each variable.

    Whole lists are compared at once: detailed iterations tell of all variables, and several relations ask of each.
    """

    def __init__(self) -> None:
        self._last: dict[int, int] = {}

    def __contains__(self, ident: int) -> bool:
        """Whether a fingerprint of a variable was taken."""
        return ident in self._last

    def take(self, state: State) -> Look:
        """Take in a state with fingerprints; say how each variable went on."""
        ids, bits = _taken(state)
        before = list(map(self._last.get, ids))
        self._last.update(zip(ids, bits, strict=True))
        fresh = [ident for ident, last in zip(ids, before, strict=True) if last is None] if None in before else []
        moved = list(compress(ids, map(ne, bits, before)))
        if fresh:  # these are others than nothing
            new = set(fresh)
            moved = [ident for ident in moved if ident not in new]
        rested = list(compress(ids, map(eq, bits, before))) if len(fresh) + len(moved) < len(ids) else []
        return Look(state, ids, bits, fresh, moved, rested)


def _taken(state: State) -> tuple[list[int], list[int]]:
    """The variables of which there are fingerprints, and these."""
    bits = state.bits or []
    if None not in bits:
        return state.ids, bits  # type: ignore[return-value]
    pairs = [(ident, one) for ident, one in zip(state.ids, bits, strict=True) if one is not None]
    return [ident for ident, _ in pairs], [one for _, one in pairs]


def looks_of(window: Window) -> list[Look]:
    """The looks at parameters before the steps of a window; the windows of a rank must be asked for in order."""
    if window.looks is None:
        window.looks = []
        states = [one for one in window.states if one.bits and one.moment == "before_step" and one.what == "parameter"]
        if states:
            if window.run.fingerprints is None:
                window.run.fingerprints = Fingerprints()
            window.looks = [window.run.fingerprints.take(state) for state in sorted(states, key=ORDER)]
    found: list[Look] = window.looks
    return found
