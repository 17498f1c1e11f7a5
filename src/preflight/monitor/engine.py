"""Checks windows against invariants, one after the other, whether they come from a file or from a run that goes on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from preflight.monitor.grouping import Groups
from preflight.monitor.relation import UNSEEN, Example, Relation, relations
from preflight.monitor.window import Window
from preflight.vocabulary.invariant import Invariant, Violation

_MOST_WAITING = 256


class _Watch:
    """One relation with the invariants in force, and an instance for each rank."""

    def __init__(self, kind: type[Relation], invariants: Sequence[Invariant]) -> None:
        self.kind = kind
        self.invariants = list(invariants)
        self.instances: dict[int, Relation] = {}
        self.general = [one for one in invariants if not one.subject]
        self.special: dict[tuple[Any, ...], list[Invariant]] = {}
        for one in invariants:
            if one.subject:
                key = tuple(one.subject.get(field) for field in kind.fields)
                self.special.setdefault(key, []).append(one)

    def instance(self, rank: int) -> Relation:
        known = self.instances.get(rank)
        if known is None:
            known = self.instances[rank] = self.kind()
        return known


class Engine:
    """Holds invariants against the windows of all ranks.

    The result depends on the windows alone, not on when they come or in which pieces.

    Attributes:
        judged: In how many examples each invariant was judged, by its id.
        groups: The violations so far, grouped by cause.
    """

    def __init__(self, invariants: Iterable[Invariant]) -> None:
        """Take the invariants in force; suppressed ones and those of relations that are not known are left out."""
        known = relations()
        by_relation: dict[str, list[Invariant]] = {}
        self.unknown: list[Invariant] = []
        for one in invariants:
            if one.relation not in known:
                self.unknown.append(one)
            elif one.suppressed is None:
                by_relation.setdefault(one.relation, []).append(one)
        self._watches = [_Watch(known[name], by_relation[name]) for name in sorted(by_relation)]
        self._single = [watch for watch in self._watches if not watch.kind.across]
        self._across = [watch for watch in self._watches if watch.kind.across]
        self.judged: dict[str, int] = {}
        self.groups = Groups()
        self._waiting: dict[int, dict[int, Window]] = {}
        self._ended: set[int] = set()
        self._world = 1
        self._joined_up_to = -1

    def see(self, window: Window) -> list[Violation]:
        """Judge a window; return the violations that are new with it."""
        found: list[Violation] = []
        if window.complete:
            for watch in self._single:
                instance = watch.instance(window.rank)
                for example in instance.see(window):
                    self._judge(watch, example, window, found)
        if self._across:
            self._world = max(self._world, window.run.world)
            if self._world > 1:
                self._waiting.setdefault(window.iteration, {})[window.rank] = window
                self._join(found)
        return found

    def ended(self, rank: int) -> list[Violation]:
        """A rank gives no more windows: nothing waits for it any longer."""
        found: list[Violation] = []
        self._ended.add(rank)
        self._join(found)
        return found

    def finish(self) -> list[Violation]:
        """No rank gives any more."""
        found: list[Violation] = []
        self._join(found, everything=True)
        return found

    def violations(self) -> list[Violation]:
        """All violations so far, the root of each group first, in the order of their steps."""
        return self.groups.violations()

    def _join(self, found: list[Violation], everything: bool = False) -> None:
        for number in sorted(self._waiting):
            windows = self._waiting[number]
            missing = self._world - len(windows) - sum(rank not in windows for rank in self._ended)
            if missing > 0 and not everything and len(self._waiting) <= _MOST_WAITING:
                return
            del self._waiting[number]
            together = {rank: windows[rank] for rank in sorted(windows) if windows[rank].complete}
            if len(together) < 2:
                continue
            first = next(iter(together.values()))
            for watch in self._across:
                for example in watch.instance(-1).see_ranks(together):
                    self._judge(watch, example, first, found)

    def _judge(self, watch: _Watch, example: Example, window: Window, found: list[Violation]) -> None:
        for invariant in watch.general:
            self._one(watch, invariant, example, window, found)
        special = watch.special
        if special:
            for invariant in special.get(example.subject, ()):
                self._one(watch, invariant, example, window, found)

    def _one(
        self, watch: _Watch, invariant: Invariant, example: Example, window: Window, found: list[Violation]
    ) -> None:
        if invariant.precondition and not invariant.applies(example.context):
            return
        self.judged[invariant.id] = self.judged.get(invariant.id, 0) + 1
        if example.value is not UNSEEN:
            wanted = invariant.subject.get("value", UNSEEN)
            if wanted is UNSEEN or example.value == wanted:
                return
            example = example._replace(expected=wanted, seen=example.value)
        elif example.holds:
            return
        new = self.groups.add(watch.kind, invariant, example, window)
        if new is not None:
            found.append(new)
