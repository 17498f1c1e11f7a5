"""Which nodes make a run fail: halves of what is left, until every bad one stands alone."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from preflight.investigate.bisect.differences import minimise
from preflight.investigate.bisect.outcome import Budget, Outcome
from preflight.investigate.bisect.repeated import Repeated


class BadNodes(msgspec.Struct, frozen=True, kw_only=True):
    """What group testing found.

    Attributes:
        nodes: Each of them alone makes a run fail.
        together: Nodes that only fail together, where none fails alone.
        cleared: Nodes of runs that passed. tests: Runs. trail: What was run.
        reason: Why there is no answer, or not a whole one.
    """

    nodes: tuple[str, ...] = ()
    together: tuple[str, ...] = ()
    cleared: tuple[str, ...] = ()
    tests: int = 0
    reason: str | None = None
    trail: tuple[tuple[tuple[str, ...], Outcome], ...] = ()


def find_bad_nodes(nodes: Sequence[str], repeated: Repeated, least: int = 1, most_bad: int | None = None) -> BadNodes:
    """Find the nodes with which a run fails.

    Args:
        nodes: All that may be used; a run on all of them fails.
        repeated: Says of a set of nodes whether a run on them fails.
        least: A run needs so many nodes; smaller groups are filled up with nodes that were cleared.
        most_bad: Stop when so many are found.
    """
    search = _Groups(repeated, least)
    try:
        return search.find(tuple(dict.fromkeys(nodes)), most_bad)
    except Budget as spent:
        return search.answer(str(spent))


class _Groups:
    def __init__(self, repeated: Repeated, least: int) -> None:
        self.repeated = repeated
        self.least = least
        self.bad: list[str] = []
        self.cleared: list[str] = []
        self.together: tuple[str, ...] = ()

    def answer(self, reason: str | None = None) -> BadNodes:
        return BadNodes(
            nodes=tuple(self.bad), together=self.together, cleared=tuple(self.cleared), reason=reason,
            tests=len(self.repeated.trail), trail=tuple(self.repeated.trail),
        )  # fmt: skip

    def find(self, nodes: tuple[str, ...], most_bad: int | None) -> BadNodes:
        if len(nodes) < 2:
            return self.answer("there are not two nodes to compare")
        whole = self.repeated.fails(nodes)
        if whole is not True:
            return self.answer(
                "a run on all nodes passes" if whole is False else "a run on all nodes could not be judged"
            )
        left = nodes
        while left and (most_bad is None or len(self.bad) < most_bad):
            if self.bad and (len(left) >= self.least or self.cleared):
                rest = self._fails(left)
                if rest is None:
                    return self.answer(f"the {len(left)} nodes that are left could not be judged")
                if not rest:
                    self._clear(left)
                    break
            reason = self._one(left)
            if reason is not None or self.together:
                return self.answer(reason)
            left = tuple(node for node in left if node not in self.bad and node not in self.cleared)
        return self.answer()

    def _one(self, whole: tuple[str, ...]) -> str | None:
        """Isolate one bad node of a group that is known to fail; return why that is not possible."""
        group = whole
        aside: list[tuple[str, ...]] = []
        while len(group) > 1:
            half = group[: (len(group) + 1) // 2]
            other = group[len(half) :]
            while self.least - len(other) > len(self.cleared) and aside:
                spare = aside.pop()  # nothing to fill up with: what was set aside is run as well
                if self._fails(spare) is False:
                    self._clear(spare)
            failed = self._fails(half)
            if failed is None:
                passed = self._fails(other)
                if passed is None:
                    return f"neither half of {len(group)} nodes could be judged: {', '.join(group)}"
                failed = not passed
                self._clear(other if not passed else ())
            if not failed:
                self._clear(half)
            elif other:
                aside.append(other)
            group = half if failed else other
        while self.least - 1 > len(self.cleared) and aside:
            spare = aside.pop()
            if self._fails(spare) is False:
                self._clear(spare)
        if self._fails(group) is True:
            self.bad.append(group[0])
            return None
        return self._pair(whole)

    def _pair(self, group: tuple[str, ...]) -> str | None:
        """Every part passes and the whole fails: nodes that fail only together, or a failure that stayed away.

        Returns why there is no answer; None where those that fail together were found.
        """
        self.repeated.take_for_granted((), False)  # on no node nothing can be run, and nothing fails
        found = minimise(group, self.repeated) if self.least <= 1 else None
        if found is not None and found.reason is None and found.confirmed:
            self.together = found.differences
            self.cleared = [node for node in self.cleared if node not in self.together]
            return None
        return "parts that pass fail together: nodes that fail only together, or a failure that comes now and then (--flaky)"

    def _clear(self, group: tuple[str, ...]) -> None:
        self.cleared += [node for node in group if node not in self.cleared]

    def _fails(self, group: tuple[str, ...]) -> bool | None:
        """Run a group, filled up with cleared nodes; None where there are too few."""
        short = self.least - len(group)
        if short > len(self.cleared):
            return None
        return self.repeated.fails((*group, *self.cleared[: max(short, 0)]))


__all__ = ["BadNodes", "find_bad_nodes"]
