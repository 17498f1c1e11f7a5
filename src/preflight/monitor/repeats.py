"""Windows that repeat: what a relation looks at has the form that it had before, as it has in most of a training.

A relation of which the form decides says of such a window what it said of the one before, and need not see it; after how
many in a row that is so it tells itself (``Relation.repeats``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from preflight.monitor.forms import Forms
from preflight.monitor.relation import UNSEEN, Example, Relation
from preflight.monitor.signs import signs_of
from preflight.monitor.window import Window

Asked = list[tuple[int, Relation]]
"""Relations with their numbers."""


class Said:
    """What relations say of a window without being asked.

    Attributes:
        examples: By their numbers.
        times: Of how many windows it was said and not yet counted; for who counts.
    """

    __slots__ = ("examples", "times")

    def __init__(self, examples: list[tuple[int, list[Example]]]) -> None:
        self.examples = examples
        self.times = 0


class _Held(NamedTuple):
    """What a relation said of windows that repeat: of how many in a row it was asked, until which one, and what."""

    asked: int
    last: int
    examples: list[Example]


_NOTHING = Said([])
_NEVER = _Held(0, -1, [])


class Repeats:
    """Follows the windows of one rank, and keeps what relations said of those that repeat."""

    def __init__(self, relations: Iterable[tuple[int, Relation]]) -> None:
        """Take all relations that windows may be shown to, with their numbers."""
        self._by_looks: dict[frozenset[str], list[tuple[int, Relation]]] = {}
        for number, one in relations:
            if one.repeats:
                self._by_looks.setdefault(one.looks, []).append((number, one))
        self._forms = Forms(self._by_looks)
        self._held: dict[int, _Held] = {}
        self._missed: dict[int, tuple[Window, int]] = {}
        self._shares: dict[int, tuple[Asked, Said, Asked]] = {}
        self._reading: dict[frozenset[str], frozenset[int]] = {}
        self._read: frozenset[int] = frozenset()
        self._index = 0
        self._before: Window | None = None

    def look(self, window: Window) -> None:
        """Take in a window; wake the relations for which it has another form than the one before."""
        self._index += 1
        changed = self._forms.changed(window)
        if self._forms.alike > 1 and self._before is not None:
            window.signs = self._before.signs  # those of the steps, too: a step reaches back to the window before
        else:
            self._read = self._readers(signs_of(window))
            for looks in changed:
                for number, one in self._by_looks[looks]:
                    self._wake(number, one)
            for number, one in self._numbered(self._read):
                self._wake(number, one)
        self._before = window

    def shares(self, awake: Asked) -> tuple[Said, Asked]:
        """What relations say of the window that need not be asked, and those to be asked.

        Args:
            awake: The relations that the window is for; the same list for the same kind of window.
        """
        known = self._shares.get(id(awake))
        if known is None or known[0] is not awake:
            known = self._shares[id(awake)] = self._share(awake) if self._held else (awake, _NOTHING, awake)
        return known[1], known[2]

    def see(self, number: int, relation: Relation, window: Window) -> list[Example]:
        """Ask a relation, and keep what it says of a window that may repeat."""
        missed = self._missed.pop(number, None)
        if missed is not None:
            relation.slept(*missed)
        found = list(relation.see(window))
        if not self._forms.whole or number in self._read:
            return found
        if all(one.holds and one.value is UNSEEN for one in found) and relation.quiet(window):
            count = self._held.get(number, _NEVER).asked + 1
            self._held[number] = _Held(count, self._index, found)
            if count >= relation.repeats:
                self._shares.clear()
        else:
            self._held.pop(number, None)
        return found

    def _wake(self, number: int, relation: Relation) -> None:
        held = self._held.pop(number, None)
        if held is None or held.asked < relation.repeats:
            return
        self._shares.clear()
        times = self._index - 1 - held.last
        if times > 0 and self._before is not None and type(relation).slept is not Relation.slept:
            self._missed[number] = self._before, times

    def _share(self, awake: Asked) -> tuple[Asked, Said, Asked]:
        said: list[tuple[int, list[Example]]] = []
        rest: Asked = []
        for number, one in awake:
            held = self._held.get(number)
            if held is None or held.asked < one.repeats:
                rest.append((number, one))
            elif held.examples:
                said.append((number, held.examples))
        return awake, Said(said), rest

    def _readers(self, signs: frozenset[str]) -> frozenset[int]:
        """The relations that read the numbers of what is in a window."""
        known = self._reading.get(signs)
        if known is None:
            if len(self._reading) >= 512:
                self._reading.clear()
            found = [number for number, one in self._numbered() if not one.reads.isdisjoint(signs)]
            known = self._reading[signs] = frozenset(found)
        return known

    def _numbered(self, chosen: frozenset[int] | None = None) -> Asked:
        every = [pair for group in self._by_looks.values() for pair in group]
        return every if chosen is None else [pair for pair in every if pair[0] in chosen]
