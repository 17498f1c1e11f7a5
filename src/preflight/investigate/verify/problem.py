"""Is the problem gone? Counted in runs, steps or hours without it, and never in good will.

Runs: given all failures, that they all fell before the change, in the hypergeometric distribution.
The comparison is made because something failed; so that at least one failure fell before is conditioned on, unless the runs
before are all that were made.
Steps and hours: given all failures, that they all fell into the exposure before; a run that ended at its failure is counted up to
there, which makes the test exact for runs that are made until they fail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from preflight.errors import UsageError
from preflight.investigate.statistics import binomial, poisson
from preflight.investigate.verify.trial import Trial
from preflight.vocabulary.verification import Problem, Side

Unit = Literal["runs", "steps", "hours"]
MOST_NEEDED = 1_000_000


class Asked:
    """What is asked about the problem."""

    def __init__(
        self,
        what: str | None = None,
        unit: Unit | None = None,
        rate: float | None = None,
        every_run: bool = False,
        tolerated: float | None = None,
        alpha: float = 0.05,
    ) -> None:
        """Keep it.

        Args:
            what: A signature or a category; None: that of the failures before.
            unit: What exposure is counted in; None: steps where every run tells them and runs are few and no rate is given, else runs.
            rate: How often it failed before, by unit, where that is known better than from the trials.
            every_run: The runs before are all that were made, and not those that failed.
            tolerated: For the sequential test: the rate that would be accepted.
            alpha: How often "gone" may be wrong.
        """
        self.what = what
        self.unit = unit
        self.rate = rate
        self.every_run = every_run
        self.tolerated = tolerated
        self.alpha = alpha


def judge_problem(before: Sequence[Trial], after: Sequence[Trial], asked: Asked) -> Problem | None:
    """Say whether the problem is gone; None where nothing failed before and no rate is stated: there is no problem to judge.

    Raises:
        UsageError: The rate that is stated is none of runs.
    """
    what = asked.what or _commonest(before)
    failed_before = [one for one in before if _same(one, what, asked.what)]
    failed_after = [one for one in after if _same(one, what, asked.what)]
    if not failed_before and asked.rate is None and not failed_after:
        return None
    # A rate without a unit is of runs, as people say it: taken by step, one clean run would be enough for any of them.
    unit = asked.unit or ("runs" if asked.rate is not None else _unit(before, after))
    if unit == "runs" and asked.rate is not None and asked.rate > 1:
        raise UsageError(
            f"--rate {asked.rate:g}: of runs, no more than all fail",
            "0.05 for one run in twenty; --unit steps or --unit hours for a rate of failures in these",
        )
    far = max((one.steps for one in failed_before if one.steps is not None), default=None)
    near = min((one.steps for one in failed_before if one.steps is not None), default=None)
    old = _side(before, failed_before, unit, None)
    new = _side(after, failed_after, unit, near if unit == "runs" else None)
    named = what or "any failure"
    if failed_after:
        return _there(old, new, named, unit, asked)
    reached = far is None or unit == "runs" or any((one.steps or 0) >= far for one in after if one.outcome == "pass")
    return _gone(old, new, named, unit, asked, far if not reached else None)


def _commonest(before: Sequence[Trial]) -> str | None:
    first = [one.what[0] for one in before if one.outcome in ("fail", "timeout") and one.what]
    return max(first, key=first.count) if first else None


def _same(trial: Trial, what: str | None, asked: str | None) -> bool:
    """Whether a run failed with the problem; what is not told apart is the same."""
    if trial.outcome == "timeout":
        return what is None or what in ("hang", "timeout")
    return trial.outcome == "fail" and (what is None or not trial.what or what in trial.what)


def _unit(before: Sequence[Trial], after: Sequence[Trial]) -> Unit:
    told = all(one.steps for one in (*before, *after) if one.outcome != "infra")
    return "steps" if told and len(before) < 5 and before and after else "runs"


def _side(trials: Sequence[Trial], failed: Sequence[Trial], unit: Unit, near: float | None) -> Side:
    counted = [one for one in trials if one.outcome != "infra"]
    # A run that did not come to where it failed before says nothing of it.
    kept = [one for one in counted if one in failed or near is None or one.steps is None or one.steps >= near]
    others = [one for one in kept if one not in failed and one.outcome != "pass"]
    good = [one for one in kept if one not in others]
    exposure = float(len(good)) if unit == "runs" else math.fsum(getattr(one, unit) or 0.0 for one in kept)
    return Side(
        runs=len(kept), failed=len(failed), others=len(others), exposure=exposure, left_out=len(trials) - len(kept)
    )


def _there(old: Side, new: Side, named: str, unit: Unit, asked: Asked) -> Problem:
    if asked.tolerated is not None and unit == "runs":
        state = binomial.sequential(new.failed, int(new.exposure), _rate(old, asked), asked.tolerated, asked.alpha)
        if state.verdict != "there":
            return _sequential(old, new, named, asked)
    fewer = (
        binomial.fisher(old.failed, old.runs - old.failed, new.failed, new.runs - new.failed)
        if unit == "runs"
        else poisson.fewer_p(new.failed, max(new.exposure, 1e-9), old.failed, max(old.exposure, 1e-9))
    )
    less = " (less often than before)" if old.failed and fewer <= asked.alpha else ""
    return Problem(
        verdict="there",
        text=f"{named} is still there: {_times(new.failed)} in {_amount(new.exposure, unit)} after the change{less}",
        what=named,
        unit=unit,
        method="it was seen",
        before=old,
        after=new,
        p=fewer,
        rate_before=_interval(old, unit),
    )


def _rate(old: Side, asked: Asked) -> float:
    return asked.rate if asked.rate is not None else min(1.0, old.failed / max(old.exposure, 1.0))


def _gone(old: Side, new: Side, named: str, unit: Unit, asked: Asked, unreached: float | None) -> Problem:
    if asked.tolerated is not None and unit == "runs" and (old.failed or asked.rate is not None):
        return _sequential(old, new, named, asked)
    p, method = chance(old, new, unit, asked)
    needed = None if p <= asked.alpha else still_needed(old, new, unit, asked)
    bound = (
        binomial.upper_bound(0, int(new.exposure), asked.alpha)
        if unit == "runs"
        else -math.log(asked.alpha) / max(new.exposure, 1e-9)
    )
    clean = (
        f"{'no failure' if named == 'any failure' else 'no ' + named} in {_amount(new.exposure, unit)} after the change"
    )
    if unreached is not None:
        text = f"{clean}, but no run came to step {unreached:,.0f}, where it failed before"
        needed = max(needed or 0, math.ceil(unreached)) if unit == "steps" else needed
    elif p <= asked.alpha:
        text = f"{clean}: {_bounded(bound, unit)}; had nothing changed, that would be seen with probability {p:.2g}"
    elif needed is not None:
        text = f"{clean} is too little: {needed:,} more {unit} without it are needed"
    else:
        text = (
            f"{clean}, but one failure that was looked for says nothing of how often it happens: "
            "make more runs without the change, or state the rate (--rate)"
        )
    return Problem(
        verdict="gone" if p <= asked.alpha and unreached is None else "undecided",
        text=text, what=named, unit=unit, method=method, before=old, after=new, p=p,
        rate_before=_interval(old, unit) if asked.rate is None else None,
        rate_after=min(1.0, bound) if unit == "runs" else bound, needed=needed,
    )  # fmt: skip


def chance(old: Side, new: Side, unit: Unit, asked: Asked) -> tuple[float, str]:
    """How probable so much without a failure is where nothing changed, and by which test."""
    if asked.rate is not None:
        if unit == "runs":
            return (1 - min(1.0, asked.rate)) ** new.exposure, "binomial, at the stated rate"
        return math.exp(-asked.rate * new.exposure), "Poisson, at the stated rate"
    if not old.failed or new.exposure <= 0:
        return 1.0, "nothing to compare"
    if unit == "runs":
        how = "all runs before" if asked.every_run else "given that it failed before"
        found = binomial.all_of_them_before(
            old.failed, int(old.exposure), int(new.exposure), chosen=not asked.every_run
        )
        return found, f"hypergeometric, {how}"
    return (old.exposure / (old.exposure + new.exposure)) ** old.failed, "conditional Poisson"


def still_needed(old: Side, new: Side, unit: Unit, asked: Asked) -> int | None:
    """How much more without a failure would decide; None where no amount does."""
    if asked.rate is not None:
        if asked.rate <= 0:
            return None
        whole = binomial.clean_runs(asked.rate, asked.alpha) if unit == "runs" else -math.log(asked.alpha) / asked.rate
        return max(1, math.ceil(whole - new.exposure))
    if not old.failed:
        return None
    if unit != "runs":
        more: float = old.exposure * (math.exp(-math.log(asked.alpha) / old.failed) - 1)
        return max(1, math.ceil(more - new.exposure))
    low: int = int(new.exposure)
    high: int = max(1, low)

    def enough(runs: int) -> bool:
        return chance(old, Side(runs=runs, failed=0, exposure=runs), unit, asked)[0] <= asked.alpha

    while not enough(high):
        high *= 2
        if high > MOST_NEEDED:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high - int(new.exposure)


def _sequential(old: Side, new: Side, named: str, asked: Asked) -> Problem:
    tolerated = asked.tolerated or 0.0
    rate = _rate(old, asked)
    state = binomial.sequential(new.failed, int(new.exposure), rate, tolerated, asked.alpha)
    step = math.log1p(-tolerated) - math.log1p(-rate) if rate < 1 else math.inf
    needed = math.ceil((state.gone - state.ratio) / step) if state.verdict == "undecided" else None
    text = {
        "gone": f"{named}: {_amount(new.exposure, 'runs')} with {_times(new.failed)} speak for a rate of {tolerated:g} or less",
        "there": f"{named}: {_times(new.failed)} in {_amount(new.exposure, 'runs')} speak for the rate of before, {rate:.3g}",
        "undecided": f"{named}: {_times(new.failed)} in {_amount(new.exposure, 'runs')} decide nothing yet; "
        f"{needed} more without it would",
    }[state.verdict]
    return Problem(
        verdict=state.verdict, text=text, what=named, unit="runs",
        method=f"sequential, {rate:.3g} against {tolerated:g}", before=old, after=new, needed=needed,
        rate_before=_interval(old, "runs"),
    )  # fmt: skip


def _interval(side: Side, unit: Unit) -> tuple[float, float] | None:
    if side.exposure <= 0:
        return None
    if unit == "runs":
        return binomial.interval(side.failed, int(side.exposure))
    return poisson.rate_interval(side.failed, side.exposure)


def _bounded(bound: float, unit: str) -> str:
    if unit == "runs":
        return f"it happens in less than {100 * bound:.2g} % of runs, with 95 % confidence"
    return f"it happens less than once in {1 / bound:,.0f} {unit}, with 95 % confidence"


def _times(count: int) -> str:
    return "no failure" if not count else "1 failure" if count == 1 else f"{count} failures"


def _amount(exposure: float, unit: str) -> str:
    word = unit[:-1] if exposure == 1 else unit
    return f"{exposure:,.0f} {word}" if unit != "hours" else f"{exposure:,.3g} {word}"
