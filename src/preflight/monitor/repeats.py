"""Windows that repeat: what a relation looks at has the form that it had before, as it has in most of a training.

A relation of which the form decides says of such a window what it said of the one before, and need not see it; after how
many in a row that is so it tells itself (``Relation.repeats``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from preflight.monitor.forms import Forms
from preflight.monitor.relation import UNSEEN, Example, Relation
from preflight.monitor.signs import signs_of
from preflight.monitor.window import Window

Asked = list[tuple[int, Relation]]
"""Relations with their numbers."""


Said = list[tuple[int, list[Example]]]
"""What relations say of a window without being asked, by their numbers."""


class Again(NamedTuple):
    """Examples that hold, said of several windows in a row without being asked."""

    number: int
    examples: list[Example]
    times: int


class _Held:
    """What a relation said of windows that repeat.

    Attributes:
        asked: Of how many in a row it was asked.
        last: The last of them.
        counted: Until which window what it said is counted.
        examples: What it said.
    """

    __slots__ = ("asked", "counted", "examples", "last")

    def __init__(self) -> None:
        self.asked = 0
        self.last = self.counted = -1
        self.examples: list[Example] = []


_MOST_SHARES = 1024
"""Sets of sleepers of which it is kept which relations are left to be asked."""


class Repeats:
    """Follows the windows of one rank, and keeps what relations said of those that repeat.

    Attributes:
        sleepers: The numbers of the relations that may sleep.
    """

    def __init__(self, relations: Iterable[tuple[int, Relation]]) -> None:
        """Take the relations that may sleep, with their numbers."""
        self._by_looks: dict[frozenset[str], list[tuple[int, Relation]]] = {}
        for number, one in relations:
            if one.repeats:
                self._by_looks.setdefault(one.looks, []).append((number, one))
        self.sleepers = frozenset(number for number, _ in self._numbered())
        self._forms = Forms(self._by_looks)
        self._held: dict[int, _Held] = {}
        self._missed: dict[int, tuple[Window, int]] = {}
        self._asleep = 0  # one bit for each relation that sleeps, so that the same ones are found again at once
        self._shares: dict[tuple[int, int], tuple[Asked, Asked]] = {}
        self._reading: dict[frozenset[str], dict[int, Relation]] = {}
        self._read: dict[int, Relation] = {}
        self._index = 0
        self._before: Window | None = None
        self._again: list[Again] = []

    def look(self, window: Window) -> list[Again]:
        """Take in a window; wake the relations for which it has another form than the one before.

        Returns:
            What those that wake said of the windows that they slept through.
        """
        self._index += 1
        changed = self._forms.changed(window)
        if self._forms.alike > 1 and self._before is not None:
            window.signs = self._before.signs  # those of the steps, too: a step reaches back to the window before
        else:
            self._read = self._readers(signs_of(window))
            for looks in changed:
                for number, one in self._by_looks[looks]:
                    self._wake(number, one)
            for number, one in self._read.items():
                self._wake(number, one)
        self._before = window
        again, self._again = self._again, []
        return again

    def leave_out(self, numbers: Collection[int]) -> None:
        """Ask relations no more, nor say anything for them."""
        for number, one in self._numbered():
            if number in numbers:
                self._wake(number, one)
                self._missed.pop(number, None)
        self._by_looks = {
            looks: [pair for pair in group if pair[0] not in numbers] for looks, group in self._by_looks.items()
        }

    def again(self) -> list[Again]:
        """What relations that sleep have said since they fell asleep, or since this was asked."""
        found, self._again = self._again, []
        for number, one in self._numbered():
            held = self._held.get(number)
            if held is not None and held.asked >= one.repeats and self._index > held.counted:
                found.append(Again(number, held.examples, self._index - held.counted))
                held.counted = self._index
        return found

    def asked(self, awake: Asked) -> Asked:
        """The relations that are to be asked of the window.

        Args:
            awake: The relations that the window is for; the same list for the same kind of window.
        """
        key = id(awake), self._asleep
        known = self._shares.get(key)
        if known is None or known[0] is not awake:
            if len(self._shares) >= _MOST_SHARES:
                self._shares.clear()
            known = self._shares[key] = awake, [pair for pair in awake if not self._asleep >> pair[0] & 1]
        return known[1]

    def said(self, awake: Asked) -> Said:
        """What those of the relations that the window is for say of it which need not be asked."""
        sleeping = (number for number, _ in awake if self._asleep >> number & 1)
        return [(number, self._held[number].examples) for number in sleeping if self._held[number].examples]

    def see(self, number: int, relation: Relation, window: Window) -> list[Example]:
        """Ask a relation, and keep what it says of a window that may repeat."""
        if number in self._missed:
            relation.slept(*self._missed.pop(number))
        found = list(relation.see(window))
        if not self._forms.whole or number in self._read:
            return found
        for one in found:
            if not one.holds or one.value is not UNSEEN:
                self._held.pop(number, None)
                return found
        if not relation.quiet(window):
            self._held.pop(number, None)
            return found
        held = self._held.get(number)
        if held is None:
            held = self._held[number] = _Held()
        held.asked += 1
        held.last = held.counted = self._index
        held.examples = found
        if held.asked >= relation.repeats:
            self._asleep |= 1 << number
        return found

    def _wake(self, number: int, relation: Relation) -> None:
        held = self._held.pop(number, None)
        if held is None or held.asked < relation.repeats:
            return
        self._asleep &= ~(1 << number)
        last = self._index - 1
        if held.examples and last > held.counted:
            self._again.append(Again(number, held.examples, last - held.counted))
        if self._before is not None and last > held.last and type(relation).slept is not Relation.slept:
            self._missed[number] = self._before, last - held.last

    def _readers(self, signs: frozenset[str]) -> dict[int, Relation]:
        """The relations that read the numbers of what is in a window."""
        known = self._reading.get(signs)
        if known is None:
            if len(self._reading) >= 512:
                self._reading.clear()
            known = {number: one for number, one in self._numbered() if not one.reads.isdisjoint(signs)}
            self._reading[signs] = known
        return known

    def _numbered(self) -> Asked:
        return [pair for group in self._by_looks.values() for pair in group]
