"""Windows to judged examples: feeds relations, and joins the ranks of an iteration for those that compare ranks.

The engine that checks and the learner that counts both take their examples from here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from preflight.monitor.collect.columns import GAP
from preflight.monitor.judging.repeats import Repeats, Said
from preflight.monitor.judging.signs import signs_of
from preflight.monitor.judging.sleeper import Again
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import steps_of
from preflight.monitor.window import Window

_MOST_WAITING = 256
"""Iterations that are kept for ranks that are behind."""

_MOST_KINDS = 512
"""Kinds of windows, by what is in them, of which it is kept which relations see them."""

Judged = tuple[int, list[Example], Window]
"""The number of the relation in the order given, its examples, and the window they were seen in."""


class _Instances:
    """Relations for the windows of one rank, of which those see a window that it holds something for."""

    def __init__(self, kinds: Iterable[tuple[int, type[Relation]]], restless: Collection[int]) -> None:
        self._all = [(number, kind()) for number, kind in kinds]
        self.follows = self._follows()
        self._awake: dict[tuple[frozenset[str], bool], list[tuple[int, Relation]]] = {}
        self.repeats = Repeats((number, one) for number, one in self._all if number not in restless)

    def _follows(self) -> list[Callable[[Window], object]]:
        """What looks at every window: what finds the steps first, of which others may ask."""
        return list(dict.fromkeys((steps_of, *(look for _, one in self._all for look in one.follows))))

    def awake(self, window: Window) -> list[tuple[int, Relation]]:
        """The relations that must see a window, in their order."""
        signs = signs_of(window)
        key = signs, window.complete
        found = self._awake.get(key)
        if found is None:
            if len(self._awake) >= _MOST_KINDS:
                self._awake.clear()
            found = self._awake[key] = [
                (number, one)
                for number, one in self._all
                if (window.complete or not one.whole) and (one.wakes is None or not one.wakes.isdisjoint(signs))
            ]
        return found

    def leave_out(self, kinds: Collection[type[Relation]]) -> None:
        """Show no more windows to relations that failed: what they would say of later ones could be wrong."""
        self.repeats.leave_out([number for number, one in self._all if type(one) in kinds])
        self._all = [(number, one) for number, one in self._all if type(one) not in kinds]
        self.follows = self._follows()
        self._awake.clear()

    def following(self, look: Callable[[Window], object]) -> list[type[Relation]]:
        """The relations for which something looks at every window."""
        return [type(one) for _, one in self._all if look in (*one.follows, steps_of)]


class Failure(NamedTuple):
    """A relation that could not judge a window for an error of its own, and judges none after it.

    Attributes:
        relation: Its name.
        rank: The rank; None for a relation that compares ranks.
        iteration: The iteration.
        error: The error, in words.
    """

    relation: str
    rank: int | None
    iteration: int
    error: str


class Examples:
    """Instances of relations for each rank, and windows that wait for the same iteration of other ranks.

    Attributes:
        failures: The relations that failed.
    """

    def __init__(self, kinds: Iterable[type[Relation]], restless: Collection[int] = ()) -> None:
        """Take the relations; what is given refers to them by their place.

        Those at the places ``restless`` do not sleep (see repeats.py).
        """
        self._restless = restless
        numbered = list(enumerate(kinds))
        self._single = [(number, kind) for number, kind in numbered if not kind.across]
        self._across = [(number, kind()) for number, kind in numbered if kind.across]
        self._instances: dict[int, _Instances] = {}
        self._waiting: dict[int, dict[int, Window]] = {}
        self._ended: set[int] = set()
        self._world = 1
        self._uneven = False  # whether ranks have gone through different numbers of iterations
        self.failures: list[Failure] = []

    def see(self, window: Window) -> list[Judged]:
        """The examples that a window gives, and those of an iteration that it completes."""
        said: Said = []
        _, judged = self._feed(window, said)
        return [*((number, found, window) for number, found in said), *judged]

    def wake(self, window: Window) -> tuple[list[Again], list[Judged]]:
        """The same for who only counts what holds: what those said of windows before that wake, and what is said now."""
        return self._feed(window)

    def _feed(self, window: Window, told: Said | None = None) -> tuple[list[Again], list[Judged]]:
        """Show a window to the relations that must see it; to ``told`` is added what the others say."""
        before: list[Again] = []
        if GAP in window.notes:
            before = self._begin_anew(window)
        instances = self._instances.get(window.rank)
        if instances is None:
            instances = self._instances[window.rank] = _Instances(self._single, self._restless)
        for look in instances.follows:  # in the order of the windows, whichever relation asks first
            try:
                look(window)
            except Exception as error:
                self._leave_out(instances.following(look), window, error)
        repeats = instances.repeats
        again = [*before, *repeats.look(window)]
        awake = instances.awake(window)
        if told is not None:
            told += repeats.said(awake)
        sleepers = repeats.sleepers
        judged: list[Judged] = []
        for number, instance in repeats.asked(awake):
            try:
                found = repeats.see(number, window) if number in sleepers else list(instance.see(window))
                if found:
                    judged.append((number, found, window))
            except Exception as error:
                self._leave_out([type(instance)], window, error)
        if self._across:
            self._world = max(self._world, window.run.world)
            if self._world > 1:
                self._waiting.setdefault(window.iteration, {})[window.rank] = window
                judged += self._join()
        return again, judged

    def _begin_anew(self, window: Window) -> list[Again]:
        """Iterations before a window were not recorded: nothing that was remembered says anything of what comes now.

        Relations that compare ranks are not asked any more: iterations are counted by steps where they are not seen.
        """
        window.run.forget()
        old = self._instances.get(window.rank)
        failed = {one.relation for one in self.failures if one.rank == window.rank}
        kinds = [(number, kind) for number, kind in self._single if kind.midway and kind.name not in failed]
        self._instances[window.rank] = _Instances(kinds, self._restless)
        self._across.clear()
        self._waiting.clear()
        return old.repeats.again() if old is not None else []

    def again(self) -> list[Again]:
        """What relations that sleep have said since they fell asleep, or since this was asked."""
        return [one for instances in self._instances.values() for one in instances.repeats.again()]

    def ended(self, rank: int) -> list[Judged]:
        """A rank gives no more windows: nothing waits for it any longer."""
        self._ended.add(rank)
        return self._join()

    def finish(self) -> list[Judged]:
        """No rank gives any more."""
        return self._join(everything=True)

    def _join(self, everything: bool = False) -> list[Judged]:
        judged: list[Judged] = []
        for number in sorted(self._waiting):
            windows = self._waiting[number]
            missing = self._world - len(windows) - sum(rank not in windows for rank in self._ended)
            if missing > 0 and not everything and len(self._waiting) <= _MOST_WAITING:
                break
            del self._waiting[number]
            everyone = {rank: windows[rank] for rank in sorted(windows)}
            left = [bool(window.named("join.left")) for window in everyone.values()]
            self._uneven = self._uneven or any(left) and not all(left)
            if self._uneven:
                # A join let one rank have more of them: from here on, those of one number do not belong together.
                continue
            whole = {rank: window for rank, window in everyone.items() if window.complete}
            for place, instance in list(self._across):
                together = whole if instance.whole else everyone
                if len(together) < 2:
                    continue
                first = next(iter(together.values()))
                try:
                    found = list(instance.see_ranks(together))
                    if found:
                        judged.append((place, found, first))
                except Exception as error:
                    self._across.remove((place, instance))
                    self.failures.append(_failure(instance, None, number, error))
        return judged

    def _leave_out(self, kinds: list[type[Relation]], window: Window, error: Exception) -> None:
        self._instances[window.rank].leave_out(kinds)
        self.failures += [_failure(kind, window.rank, window.iteration, error) for kind in kinds]


def _failure(kind: type[Relation] | Relation, rank: int | None, iteration: int, error: Exception) -> Failure:
    word = f"{type(error).__name__}: {error}".rstrip(": ")
    return Failure(kind.name, rank, iteration, word.splitlines()[0][:200])
