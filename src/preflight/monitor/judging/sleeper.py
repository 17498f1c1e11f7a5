"""One relation of which the form decides: what it said of windows that repeat, and whether it need be asked.

It falls asleep after as many windows of one form in a row as it tells (``Relation.repeats``). Many programs leave that
form again and again and come back to it: every tenth iteration holds an evaluation, every hundredth a checkpoint.
Such a departure, from the window with another form to the one in which the relation falls asleep again, is kept; after
it was the same often enough, the relation sleeps through it as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from preflight.monitor.judging.forms import Forms
from preflight.monitor.relation import UNSEEN, Example, Relation
from preflight.monitor.window import Window

_MOST_DEPARTURES = 8
LONGEST = 12
"""Windows of a departure that is kept."""
_MOST_KNOWN = 64


class Again(NamedTuple):
    """Examples that hold, said of several windows without being asked."""

    number: int
    examples: list[Example]
    times: int


class _Stop(NamedTuple):
    """One window of a departure."""

    form: int
    examples: list[Example]


class _Departure:
    """Windows between two in which a relation sleeps; in the form of the last one it falls asleep.

    Attributes:
        base: The form that is left, as far as the relation looks at it.
        stops: The windows.
        dues: The forms of these, as far as the relation looks at them.
        home: Whether it leads back to where it began, so that the same is said there.
        seen: How often the relation said the same all the way.
        slept: How often it slept through it, and nothing was counted yet.
    """

    __slots__ = ("base", "dues", "home", "seen", "slept", "stops")

    def __init__(self, base: int, stops: list[_Stop], dues: list[int], home: bool) -> None:
        self.base = base
        self.stops = stops
        self.dues = dues
        self.home = home
        self.seen = 1
        self.slept = 0


class Sleeper:
    """A relation that may sleep.

    Attributes:
        number: Its number.
        looks: What it looks at.
        asked: Of how many windows in a row with one form it was asked.
        asleep: Whether it need not be asked.
        reading: Whether it is asked of windows that it reads, and sleeps on after them.
        away: Whether it sleeps through a departure.
    """

    def __init__(self, number: int, relation: Relation, forms: Forms, count: Callable[[Again], None]) -> None:
        """Take the relation with its number, and who counts what it says without being asked."""
        self.number = number
        self.asked = 0
        self.asleep = self.away = self.reading = False
        self._relation = relation
        self._forms = forms
        self._aspect = forms.aspects[relation.looks]
        self._count = count
        self.looks = relation.looks
        self._tells = type(relation).slept is not Relation.slept
        self._rated = "rates" in relation.looks
        self._rates = -1  # those under which its departures were seen, which are no part of a form
        self._enough = max(3, relation.repeats + 1)
        self._kept: object = None
        self._shown = False  # what it reads
        self._examples: list[Example] = []
        self._form = self._last = self._counted = -1  # where it sleeps, the last window that is told, and counted
        self._times = 0  # windows of that form that are not counted yet
        self._missed: dict[int, tuple[Window, int]] = {}
        self._departures: list[_Departure] = []
        self._known: dict[tuple[int, int], list[_Departure]] = {}  # by two forms: what begins between them
        self._path: list[_Stop] | None = None  # since it left the form in which it slept, while it is asked
        self._left: tuple[int, int, list[Example]] = -1, -1, []
        self._ways: Sequence[_Departure] = ()  # which of them it may be that it sleeps through
        self._told = 0  # windows of it that were counted
        self._once_more: list[Window] = []

    def said(self, index: int) -> list[Example]:
        """What it says of a window through which it sleeps."""
        return self._ways[0].stops[index - self._left[1]].examples if self._ways else self._examples

    def see(self, window: Window) -> list[Example]:
        """Ask it, after it was told of what it missed."""
        if self._missed:
            for one, times in self._missed.values():
                self._relation.slept(one, times)
            self._missed.clear()
        if self._once_more:
            for one in self._once_more:
                for _ in self._relation.see(one):
                    pass
            self._once_more = []
        return list(self._relation.see(window))

    def keep(self, found: list[Example], window: Window, index: int) -> None:
        """Keep what it says of a window that may repeat."""
        self.asked += 1
        for one in found:
            if not one.holds or one.value is not UNSEEN:
                self.asked = 0
        if not self.asked or not self._relation.quiet(window):
            self.asked, self._path = 0, None
            self._forget(self._departures)
            return
        self._last = self._counted = index
        self._examples, self._form = found, self._forms.form
        path = self._path
        if path is not None:
            if index == self._left[1] + len(path) and len(path) < LONGEST:
                path.append(_Stop(self._form, found))
            else:
                self._path = None
        if self.asked >= self._relation.repeats:
            self.asleep = True
            if self._settle() and self._path:
                self._learn(self._path)
            self._path = None

    def read(self, before: Window, index: int) -> bool:
        """Take in a window that it reads, in the form in which it sleeps; say whether it may sleep on after it."""
        self._kept = self._relation.kept()
        self.reading = self.asleep and not self.away and self._kept is not None
        if self.reading:
            self._rested(before, index - 1)
            self.asleep = self._shown = False
        return self.reading

    def learnt(self) -> None:
        """It was asked of a window that it reads: it may be that it knows more now."""
        self._shown = True
        if not self.reading or self._relation.kept() != self._kept:
            self.wake(None, 0, ())
            self.doubt()

    def sleep_on(self, index: int) -> None:
        """Take in that there is nothing more to read from a window on: it sleeps again, unless it was not asked."""
        if not self._shown:
            self.wake(None, index, ())
            return
        self.reading, self.asleep = False, True
        self._last = self._counted = index - 1

    def leave(self, before: Window, index: int, windows: Sequence[Window]) -> None:
        """Take in a window of another form than that in which it sleeps: a departure that is known, or it wakes.

        Args:
            before: The window before.
            index: The number of the window.
            windows: The last ones up to it, of which the longest departure may need to be told.
        """
        if self._rated:
            self._settle()
        ways = self._ways_from(self._form, self._forms.form) if self._departures else ()
        if ways:
            self._rested(before, index - 1)
            self._left = self._form, index, self._examples
            self._ways, self._told = ways, 0
            self.away = len(ways[0].stops) > 1
            if not self.away:
                self._arrive(ways[0], windows)
            return
        left = self._form, index, self._examples
        self.wake(before, index, windows)
        if self._forms.whole:
            self._path, self._left = [], left

    def on_its_way(self, index: int) -> bool:
        """Whether a window, while it is away, is the one that is due, and not the last one: there is nothing to do then."""
        at, dues = index - self._left[1], self._ways[0].dues
        return (
            dues[at] == self._aspect.of(self._forms.form)
            and at + 1 < len(dues)
            and (not self._rated or self._rates == self._forms.rates)
        )

    def go_on(self, before: Window, index: int, windows: Sequence[Window]) -> None:
        """Take in a window while it is away: the next one of a departure that is known, or it wakes."""
        at, form = index - self._left[1], self._aspect.of(self._forms.form)
        known = self._ways[0]
        if not self._settle():
            self.wake(before, index, windows)
            return
        if known.dues[at] != form:
            ways = [one for one in self._ways if len(one.dues) > at and one.dues[at] == form]
            if not ways:
                path = known.stops[:at]
                self.wake(before, index, windows)
                self._path = path if self._forms.whole else None
                return
            self._ways, known = ways, ways[0]
        if len(known.stops) == at + 1:
            self._arrive(known, windows)

    def wake(self, before: Window | None, index: int, windows: Sequence[Window]) -> None:
        """Have it asked again from this window on, the arguments as those of ``leave``."""
        self.asked, self._path = 0, None
        if self.reading:
            self.reading = False
            self._tell()
        if not self.asleep:
            return
        if self._ways:
            shown = index - self._left[1]
            self._stopped(self._ways[0], self._told, shown)
            self._once_more = [*windows][-shown - 1 : -1]
            self.away, self._ways = False, ()
        elif before is not None:
            self._rested(before, index - 1)
        self.asleep = False
        self._tell()

    def doubt(self) -> None:
        """Something else happened: each departure must be seen to be the same once more."""
        self._known.clear()
        for one in self._departures:
            one.seen = min(one.seen, self._enough - 1)

    def tell(self, index: int) -> None:
        """Count what was said without being asked, up to a window."""
        if self._ways:
            shown = index - self._left[1] + 1
            self._stopped(self._ways[0], self._told, shown)
            self._told = shown
        elif self.asleep:
            self._times += index - self._counted
            self._counted = index
        self._tell()
        for one in self._departures:
            self._tell_of(one)

    def _arrive(self, known: _Departure, windows: Sequence[Window]) -> None:
        """It has slept through a departure."""
        _, left, _ = self._left
        length = len(known.stops)
        if self._told:
            self._stopped(known, self._told, length)
        else:
            known.slept += 1
        if self._tells:
            for stop, one in zip(known.stops, [*windows][-length:], strict=True):
                self._miss(stop.form, one, 1)
        self.away, self._ways = False, ()
        self._last = self._counted = left + length - 1
        if not known.home:
            self._tell()
            self._examples, self._form = known.stops[-1].examples, known.stops[-1].form

    def _stopped(self, known: _Departure, since: int, until: int) -> None:
        """Count what it said of some windows of a departure."""
        for stop in known.stops[since:until]:
            if stop.examples:
                self._count(Again(self.number, stop.examples, 1))

    def _rested(self, before: Window, last: int) -> None:
        """It slept in one form until a window."""
        self._times += last - self._counted
        self._counted = last
        if self._tells and last > self._last:
            self._miss(self._form, before, last - self._last)
        self._last = last

    def _miss(self, form: int, window: Window, times: int) -> None:
        _, known = self._missed.pop(form, (window, 0))
        self._missed[form] = window, known + times

    def _tell(self) -> None:
        if self._examples and self._times > 0:
            self._count(Again(self.number, self._examples, self._times))
        self._times = 0

    def _tell_of(self, departure: _Departure) -> None:
        for stop in departure.stops if departure.slept else ():
            if stop.examples:
                self._count(Again(self.number, stop.examples, departure.slept))
        departure.slept = 0

    def _ways_from(self, base: int, first: int) -> list[_Departure]:
        """The departures from a form, with such a first window, that were seen often enough."""
        base, first = self._aspect.of(base), self._aspect.of(first)
        known = self._known.get((base, first))
        if known is None:
            often = (one for one in self._departures if one.seen >= self._enough)
            known = [one for one in often if one.dues[0] == first and one.base == base]
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[base, first] = known
        return known

    def _settle(self) -> bool:
        """Whether rates are as they were, for who looks at them; its departures are forgotten when they are not."""
        if not self._rated or self._rates == self._forms.rates:
            return True
        self._rates = self._forms.rates
        self._forget(self._departures)
        return False

    def _learn(self, path: list[_Stop]) -> None:
        """Keep a departure, or see that it was as it was before."""
        self._known.clear()
        form, _, examples = self._left
        base, dues = self._aspect.of(form), [self._aspect.of(stop.form) for stop in path]
        home = base == dues[-1] and _alike(examples, path[-1].examples)
        for known in self._departures:
            if known.home != home or known.base != base or known.dues != dues:
                continue
            if all(_alike(one.examples, other.examples) for one, other in zip(known.stops, path, strict=True)):
                known.seen += 1
                known.stops = path
                return
            self._forget([known])
            break
        self._forget(self._departures[: 1 - _MOST_DEPARTURES])
        self._departures.append(_Departure(base, path, dues, home))

    def _forget(self, departures: Collection[_Departure]) -> None:
        self._known.clear()
        for one in departures:
            self._tell_of(one)
        self._departures = [one for one in self._departures if one not in departures]


def _alike(examples: list[Example], others: list[Example]) -> bool:
    """Whether the same holds of the same, in the same context."""
    return [one[:3] for one in examples] == [one[:3] for one in others]
