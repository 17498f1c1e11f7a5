"""The breaking point of a quantity: the largest value that works and the smallest that fails."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from preflight.investigate.bisect.outcome import Ask, Budget, Outcome
from preflight.investigate.bisect.posterior import GRID, Posterior

WRONG = 0.02
"""How probable it may be that a wrong answer withstands its confirmation; simulations show what that comes to in all."""
STOP = 0.15
"""How probable another answer may be when one is put to its confirmation."""
FAILURES_TO_LEARN = 4
"""So many failures of the failing end are seen before its chance counts as known where none is given."""


class BreakingPoint(msgspec.Struct, frozen=True, kw_only=True):
    """What a search found.

    Attributes:
        works: The largest value that works. fails: The smallest that fails. None where the search did not get there.
        probability: That this is the answer, 1 where failures are certain.
        tests: Runs asked for.
        untold: Values between the two that could not be judged (they failed otherwise, or did not end), or were not tried.
        reason: Why there is no answer, or not a whole one.
        trail: Every value that was run, with its outcome.
        chance: How often the failure comes where it can, as far as it was learnt.
    """

    works: Any = None
    fails: Any = None
    probability: float = 0.0
    tests: int = 0
    untold: tuple[Any, ...] = ()
    reason: str | None = None
    trail: tuple[tuple[Any, Outcome], ...] = ()
    chance: float | None = None

    @property
    def found(self) -> bool:
        """Whether both sides are known and nothing lies between them."""
        return self.works is not None and self.fails is not None and self.reason is None


def most_tests(count: int, chance: float | None = 1.0, wrong: float = WRONG) -> int:
    """Return how many runs a search over ``count`` values takes at most (certain failures), or usually (others)."""
    halves = math.ceil(math.log2(max(count - 1, 1)))
    if chance is None or chance < 1.0:
        once = passes_needed(chance or 0.3, wrong)
        bits = -(1.0 - (chance or 0.3)) * math.log2(max(1.0 - (chance or 0.3), 1e-9))
        return 3 * once + math.ceil(halves / max(bits, 0.1))
    return halves + 2


def most_untold(count: int) -> int:
    """Return after how many values that cannot be judged a search over ``count`` values stops: certain failures."""
    return most_tests(count)


def passes_needed(chance: float, wrong: float = WRONG) -> int:
    """Return how many runs in a row have to pass until a failure of this chance is excluded: ln wrong / ln (1 - chance)."""
    if chance >= 1.0:
        return 1
    return max(1, math.ceil(math.log(wrong) / math.log(1.0 - chance)))


class _Search:
    def __init__(self, values: Sequence[Any], ask: Ask, told: Callable[[Any, Outcome], None] | None) -> None:
        self.values = values
        self.ask = ask
        self.told = told
        self.trail: list[tuple[Any, Outcome]] = []
        self.untold: set[int] = set()

    def run(self, at: int) -> bool | None:
        """Run one value: True it failed, False it passed, None neither."""
        outcome = self.ask(self.values[at])
        self.trail.append((self.values[at], outcome))
        if self.told is not None:
            self.told(self.values[at], outcome)
        if outcome.kind in ("pass", "fail"):
            return outcome.kind == "fail"
        self.untold.add(at)
        return None

    def answer(self, **more: Any) -> BreakingPoint:
        return BreakingPoint(tests=len(self.trail), trail=tuple(self.trail), **more)


def find_breaking_point(
    values: Sequence[Any],
    ask: Ask,
    *,
    chance: float | None = 1.0,
    wrong: float = WRONG,
    told: Callable[[Any, Outcome], None] | None = None,
) -> BreakingPoint:
    """Find where failures begin, between a first value that is said to work and a last that is said to fail.

    Both ends are run first: an end that is not what it is said to be ends the search.

    Args:
        values: In the order in which the failure appears; at least two.
        ask: Runs a value.
        chance: How often the failure comes where it can: 1 for always, None to learn it at the failing end.
        wrong: How probable a wrong answer may be.
        told: Hears of every run.
    """
    search = _Search(values, ask, told)
    if len(values) < 2:
        return search.answer(reason="there are not two values to compare")
    try:
        if chance is not None and chance >= 1.0:
            return _certain(search)
        return _now_and_then(search, chance, wrong)
    except Budget as spent:
        passed = [values.index(v) for v, o in search.trail if o.kind == "pass"]
        failed = [values.index(v) for v, o in search.trail if o.kind == "fail"]
        certain = chance is not None and chance >= 1.0
        return search.answer(
            works=values[max(passed)] if passed and certain else None,
            fails=values[min(failed)] if failed else None,
            reason=str(spent),
        )


def _certain(search: _Search) -> BreakingPoint:
    """Halve the interval; where values cannot be judged, the widest gap that they leave.

    A run that does not end costs its whole deadline: after as many of them as a search takes, it stops with an interval.
    """
    low, high = 0, len(search.values) - 1
    for at, wanted in ((high, True), (low, False)):
        if search.run(at) is not wanted:
            return search.answer(reason=_wrong_end(search, at, wanted))
    while (middle := _middle(low, high, search.untold)) is not None:
        if len(search.untold) >= most_untold(len(search.values)):
            break
        failed = search.run(middle)
        if failed is True:
            high = middle
        elif failed is False:
            low = middle
    between = range(low + 1, high)
    tried = sum(at in search.untold for at in between)
    reason = None
    if between:
        reason = f"{tried} value{'s' if tried != 1 else ''} between could not be judged"
        if tried < len(between):
            reason += f", and {len(between) - tried} more were not tried for that"
    return search.answer(
        works=search.values[low], fails=search.values[high], probability=1.0 if not between else 1.0 / (len(between) + 1),
        untold=tuple(search.values[at] for at in between), reason=reason, chance=1.0,
    )  # fmt: skip


def _middle(low: int, high: int, untold: set[int]) -> int | None:
    """Return the middle of the widest gap between two ends, which what cannot be judged divides; None where none is left."""
    edges = [low, *sorted(at for at in untold if low < at < high), high]
    gaps = [(after - before, before) for before, after in pairwise(edges) if after - before > 1]
    if not gaps:
        return None
    width, before = max(gaps, key=lambda gap: (gap[0], -gap[1]))
    return before + width // 2


def _wrong_end(search: _Search, at: int, wanted: bool) -> str:
    value, outcome = search.trail[-1]
    if outcome.kind in ("pass", "fail"):
        said = "passed" if outcome.kind == "pass" else "failed"
        hint = ": it may come only now and then (--flaky)" if wanted else ": look for a value that works"
        return f"{value} is said to {'fail' if wanted else 'work'}, and {said}{hint}"
    return f"{value} could not be judged: {outcome.kind}{f' ({outcome.text})' if outcome.text else ''}"


def _now_and_then(search: _Search, chance: float | None, wrong: float) -> BreakingPoint:
    """Run where a run tells most, until one answer is probable enough."""
    last = len(search.values) - 1
    belief = Posterior(len(search.values), GRID if chance is None else (chance,))
    reason = _learn(search, belief, chance, wrong)
    if reason is not None:
        return search.answer(reason=reason)
    while True:
        at, probability = belief.best()
        if probability >= 1.0 - STOP and at - 1 not in search.untold and at not in search.untold:
            failed = _confirm(search, belief, at, wrong)
            if failed is None:
                continue
            if not failed:
                break
            if at == 1:
                return search.answer(reason=_wrong_end(search, 0, False))
            belief.update(at - 1, True)
            continue
        chosen, bits = belief.choose(k for k in range(last + 1) if k not in search.untold)
        if chosen is None or bits < 1e-6:
            between = tuple(search.values[k] for k in sorted(search.untold))
            return search.answer(
                works=search.values[at - 1], fails=search.values[at], probability=probability, untold=between,
                reason="what is left cannot be told apart by further runs", chance=belief.chance(),
            )  # fmt: skip
        failed = search.run(chosen)
        if failed and chosen == 0:
            return search.answer(reason=_wrong_end(search, 0, False))
        if failed is not None:
            belief.update(chosen, failed)
    works, fails = search.values[at - 1], search.values[at]
    return search.answer(works=works, fails=fails, probability=1.0 - wrong, chance=belief.chance())


def _confirm(search: _Search, belief: Posterior, at: int, wrong: float) -> bool | None:
    """Run both sides of an answer anew: True: the working side fails; False: it stands; None: a side cannot be judged.

    What led to the answer was chosen by what was seen, and does not count again: were the answer wrong, so many fresh
    passes in a row would be as improbable as ``wrong``.
    """
    for _ in range(belief.runs_to_exclude(wrong)):
        failed = search.run(at - 1)
        if failed is not False:
            return failed
    while not any(value == search.values[at] and outcome.kind == "fail" for value, outcome in search.trail):
        failed = search.run(at)
        if failed is None:
            return None
        belief.update(at, failed)
        if belief.best()[0] != at:
            return None
    return False


def _learn(search: _Search, belief: Posterior, chance: float | None, wrong: float) -> str | None:
    """See the failing end fail, often enough to know how often it does; return why that did not happen."""
    last = len(search.values) - 1
    failures = 0
    wanted = FAILURES_TO_LEARN if chance is None else 1
    most = passes_needed(chance if chance is not None else min(GRID), wrong / 3.0)
    runs = 0
    while failures < wanted:
        if runs - failures >= most * wanted or (not failures and runs >= most):
            return f"{search.values[last]} is said to fail, and passed {runs - failures} times out of {runs}"
        failed = search.run(last)
        if failed is None:
            return _wrong_end(search, last, True)
        runs += 1
        belief.update(last, failed)
        failures += failed
    return None


__all__ = ["WRONG", "BreakingPoint", "find_breaking_point", "most_tests", "most_untold", "passes_needed"]
