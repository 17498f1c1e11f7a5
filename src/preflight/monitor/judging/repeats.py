"""Windows that repeat: what a relation looks at has the form that it had before, as it has in most of a training.

A relation of which the form decides says of such a window what it said of the one before, and need not see it; after how
many in a row that is so it tells itself (``Relation.repeats``, and see sleeper.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable

from preflight.monitor.judging.forms import Forms
from preflight.monitor.judging.signs import Signs, signs_of
from preflight.monitor.judging.sleeper import LONGEST, Again, Sleeper
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

Asked = list[tuple[int, Relation]]
"""Relations with their numbers."""

Said = list[tuple[int, list[Example]]]
"""What relations say of a window without being asked, by their numbers."""

_MOST_SHARES = 1024
"""Sets of sleepers of which it is kept which relations are left to be asked."""
_MOST_READING = 512


class Repeats:
    """Follows the windows of one rank, and keeps what relations said of those that repeat.

    Attributes:
        sleepers: The relations that may sleep, by their numbers.
    """

    def __init__(self, relations: Iterable[tuple[int, Relation]]) -> None:
        """Take the relations that may sleep, with their numbers."""
        may = [(number, one) for number, one in relations if one.repeats]
        self._again: list[Again] = []
        self._forms = Forms(one.looks for _, one in may)
        self.sleepers = {number: Sleeper(number, one, self._forms, self._again.append) for number, one in may}
        self._by_looks: dict[frozenset[str], list[Sleeper]] = {}
        for number, one in may:
            self._by_looks.setdefault(one.looks, []).append(self.sleepers[number])
        self._reads = {number: one.reads for number, one in may}
        self._asleep = 0  # one bit for each relation that sleeps, so that the same ones are found again at once
        self._shares: dict[tuple[int, int], tuple[Asked, Asked]] = {}
        self._reading: dict[frozenset[str], dict[int, Sleeper]] = {}
        self._read: dict[int, Sleeper] = {}
        self._away: list[Sleeper] = []
        self._signs = Signs()
        self._index = 0
        self._before: Window | None = None
        self._windows: deque[Window] = deque(maxlen=LONGEST + 1)

    def look(self, window: Window) -> list[Again]:
        """Take in a window; wake the relations for which it has a form that they do not expect.

        Returns:
            What those that wake said of the windows that they slept through.
        """
        self._index += 1
        changed = self._forms.changed(window)
        self._windows.append(window)
        before = self._before
        if before is not None and self._forms.alike > 1:
            window.signs = before.signs  # those of the steps, too: a step reaches back to the window before
            if self._away:
                self._go_on(before)
        else:
            signs = self._signs.share(window, self._forms.form) if self._forms.form >= 0 else signs_of(window)
            self._read_on(signs, before, changed)
            gone = self._go_on(before) if self._away and before is not None else ()
            for looks in changed:
                for one in self._by_looks[looks]:
                    if not one.asleep:
                        one.asked = 0
                    elif before is not None and one.number not in gone:
                        self._leave(one, before)
        self._before = window
        return self._counted()

    def leave_out(self, numbers: Collection[int]) -> None:
        """Ask relations no more, nor say anything for them."""
        for number in numbers:
            one = self.sleepers.pop(number, None)
            if one is not None:
                self._wake(one)
                self._by_looks[one.looks].remove(one)
        self._away = [one for one in self._away if one.number not in numbers]
        self._reading.clear()

    def again(self) -> list[Again]:
        """What relations that sleep have said since they fell asleep, or since this was asked."""
        for one in self.sleepers.values():
            one.tell(self._index)
        return self._counted()

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
        said = ((number, self.sleepers[number].said(self._index)) for number in sleeping)
        return [(number, examples) for number, examples in said if examples]

    def see(self, number: int, window: Window) -> list[Example]:
        """Ask a relation that may sleep, and keep what it says of a window that may repeat."""
        one = self.sleepers[number]
        found = one.see(window)
        if self._forms.whole and number not in self._read:
            one.keep(found, window, self._index)
            if one.asleep:
                self._asleep |= 1 << number
        else:
            one.learnt()
        return found

    def _read_on(self, signs: frozenset[str], before: Window | None, changed: Collection[frozenset[str]]) -> None:
        """Have the relations asked that read a window; those that are done with reading sleep again."""
        done = [one for number, one in self._read.items() if one.reading]
        self._read = self._readers(signs)
        for one in done:
            one.sleep_on(self._index)
            if one.asleep:
                self._asleep |= 1 << one.number
        for one in self._read.values():
            if before is None or one.looks in changed or not one.read(before, self._index):
                self._wake(one)
            self._asleep &= ~(1 << one.number)

    def _go_on(self, before: Window) -> set[int]:
        """Have those that are away take in the window; give their numbers."""
        gone = self._away
        for one in gone:
            if one.away and not one.on_its_way(self._index):
                one.go_on(before, self._index, self._windows)
                if not one.asleep:
                    self._asleep &= ~(1 << one.number)
        self._away = [one for one in gone if one.away]
        return {one.number for one in gone}

    def _leave(self, one: Sleeper, before: Window) -> None:
        one.leave(before, self._index, self._windows)
        if one.away:
            self._away.append(one)
        elif not one.asleep:
            self._asleep &= ~(1 << one.number)

    def _wake(self, one: Sleeper) -> None:
        if one.asleep:
            self._asleep &= ~(1 << one.number)
        one.wake(self._before, self._index, self._windows)

    def _counted(self) -> list[Again]:
        """What was said without being asked, and is told once."""
        if not self._again:
            return []
        told = self._again[:]
        self._again.clear()
        return told

    def _readers(self, signs: frozenset[str]) -> dict[int, Sleeper]:
        """The relations that read the numbers of what is in a window."""
        known = self._reading.get(signs)
        if known is None:
            if len(self._reading) >= _MOST_READING:
                self._reading.clear()
            reading = (number for number, reads in self._reads.items() if not reads.isdisjoint(signs))
            known = {number: self.sleepers[number] for number in reading if number in self.sleepers}
            self._reading[signs] = known
        return known
