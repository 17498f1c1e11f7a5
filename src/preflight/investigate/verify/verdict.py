"""The verdict on a fix: FIXED, NOT_FIXED, REGRESSION or INCONCLUSIVE, with what is still missing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from preflight.investigate.statistics import binomial
from preflight.investigate.verify.compare import compare
from preflight.investigate.verify.directions import Wanted
from preflight.investigate.verify.problem import Asked, judge_problem
from preflight.investigate.verify.trial import Trial
from preflight.vocabulary.report import SCHEMA, Report, Tool, Verdict
from preflight.vocabulary.verification import Compared, Fixed, Problem, Verification
from preflight.vocabulary.version import VERSION

VERDICTS: dict[Fixed, Verdict] = {"FIXED": "GO", "NOT_FIXED": "NO-GO", "REGRESSION": "NO-GO", "INCONCLUSIVE": "UNKNOWN"}


def verify(
    before: Sequence[Trial],
    after: Sequence[Trial],
    *,
    asked: Asked | None = None,
    wanted: Wanted | None = None,
    warm_up: int | None = None,
    all_metrics: bool = False,
) -> Verification:
    """Say whether the change fixed the problem without making anything worse.

    Args:
        before: The trials before the change.
        after: Those after it.
        asked: What is asked about the problem.
        wanted: The metrics, their directions and margins.
        warm_up: Steps at the beginning of each run that are not compared.
        all_metrics: Every metric that both sides have is compared, and one without a direction is refused; else only those whose
            direction is declared or known.

    Raises:
        UsageError: Whether higher or lower is better is not known of a metric.
    """
    asked, wanted = asked or Asked(), wanted or Wanted()
    goal = asked.what if asked.what in wanted.directions else None
    problem = None if goal else judge_problem(before, after, asked)
    alpha = _each(asked.alpha, problem)
    metrics = compare(before, after, wanted, alpha=alpha, warm_up=warm_up, all_of_them=all_metrics)
    status, text = _decided(problem, metrics, before, after, asked, goal)
    return Verification(
        status=status,
        text=text,
        problem=problem,
        metrics=tuple(metrics),
        needed=(*_asked_of(problem, goal), *_needed(problem, metrics)) if status == "INCONCLUSIVE" else (),
        assumptions=tuple(_assumptions(before, after, problem, metrics, asked)),
        alpha=asked.alpha,
    )


def _decided(
    problem: Problem | None,
    metrics: Sequence[Compared],
    before: Sequence[Trial],
    after: Sequence[Trial],
    asked: Asked,
    goal: str | None,
) -> tuple[Fixed, str]:
    if problem is not None and problem.verdict == "there":
        return "NOT_FIXED", problem.text
    worse = [one for one in metrics if one.verdict == "worse"]
    if goal is not None and any(one.metric == goal for one in worse):
        return "NOT_FIXED", next(one.text for one in worse if one.metric == goal)
    if worse:
        return "REGRESSION", "; ".join(one.text for one in worse)
    broken = _breaks(before, after, problem, asked.alpha if not metrics else _each(asked.alpha, problem))
    if broken is not None:
        return broken
    if goal is not None:
        return _goal(goal, metrics)
    if problem is None:
        return "INCONCLUSIVE", "nothing failed before the change: there is no problem whose absence would show a fix"
    undecided = [one for one in metrics if one.verdict == "undecided"]
    if problem.verdict == "undecided":
        return "INCONCLUSIVE", problem.text
    if undecided:
        return "INCONCLUSIVE", f"{problem.text}; but {undecided[0].text}"
    return "FIXED", problem.text + ("; no metric is worse" if metrics else "; no metric was compared")


def _each(alpha: float, problem: Problem | None) -> float:
    """How often the metrics, and failures of another kind, may each be called worse by chance: both together ``alpha``."""
    return alpha / 2 if problem is not None and problem.after.others else alpha


def _goal(goal: str, metrics: Sequence[Compared]) -> tuple[Fixed, str]:
    """The problem is a metric that was bad: it has to be better."""
    one = next(one for one in metrics if one.metric == goal)
    if one.verdict == "better":
        other = next((other for other in metrics if other.verdict == "undecided"), None)
        return ("FIXED", one.text) if other is None else ("INCONCLUSIVE", f"{one.text}; but {other.text}")
    return ("NOT_FIXED", one.text) if one.verdict == "same" else ("INCONCLUSIVE", one.text)


def _breaks(
    before: Sequence[Trial], after: Sequence[Trial], problem: Problem | None, alpha: float
) -> tuple[Fixed, str] | None:
    """Failures of another kind that came with the change."""
    if problem is None or not problem.after.others:
        return None
    old, new = problem.before, problem.after
    kinds = sorted(
        {one.what[0] if one.what else one.outcome for one in after if one.outcome in ("fail", "other", "timeout")}
    )
    p = binomial.fisher(new.others, new.runs - new.others, old.others, old.runs - old.others)
    said = f"{new.others} of {new.runs} runs failed in another way after the change ({', '.join(kinds)}), {old.others} of {old.runs} before"
    if p <= alpha:
        return "REGRESSION", f"{said} (p = {p:.2g})"
    return "INCONCLUSIVE", f"{said}: too few to tell whether the change did it (p = {p:.2g})"


def _asked_of(problem: Problem | None, goal: str | None) -> tuple[str, ...]:
    """Return what is needed where nothing failed before: without a failure no number of clean runs shows a fix."""
    if problem is not None or goal is not None:
        return ()
    return ("a run before the change that fails, or how often it fails: --rate",)


def _needed(problem: Problem | None, metrics: Sequence[Compared]) -> list[str]:
    found = []
    if problem is not None and problem.verdict == "undecided" and problem.needed:
        found.append(f"{problem.needed:,} more {problem.unit} after the change without {problem.what}")
    found += [
        f"{one.metric}: about {one.needed:,} {one.of} on each side"
        for one in metrics
        if one.verdict == "undecided" and one.needed
    ]
    return found


def _assumptions(
    before: Sequence[Trial], after: Sequence[Trial], problem: Problem | None, metrics: Sequence[Compared], asked: Asked
) -> list[str]:
    found = []
    if problem is not None:
        if asked.rate is not None:
            found.append(
                f"before the change {problem.what.replace('any failure', 'a failure')} happened at the stated rate of {asked.rate:g} by {problem.unit[:-1]}"
            )
        if problem.unit != "runs":
            found.append(
                f"every one of the {problem.unit} is as dangerous as any other, and all that were made before are counted"
            )
        if problem.after.left_out:
            found.append(
                f"{problem.after.left_out} runs after the change are not counted: they never came to where it failed before, or ended for outside reasons"
            )
    if any(one.of == "steps" and one.p is not None for one in metrics):
        found.append(
            "with fewer than three runs on a side, differences between runs of the same program are not in the intervals"
        )
    orders = sorted(
        [(one.order, 0) for one in before if one.order is not None]
        + [(one.order, 1) for one in after if one.order is not None]
    )
    if metrics and len(orders) == len(before) + len(after) >= 4:
        changes = sum(one[1] != other[1] for one, other in pairwise(orders))
        if changes <= 1:
            found.append("the runs were not interleaved: a drift of the machine would look like the change")
    return found


def report_of(verification: Verification, inputs: dict[str, object]) -> Report:
    """The report of a verification."""
    return Report(
        schema=SCHEMA,
        command="investigate verify",
        tool=Tool("preflight", VERSION),
        verdict=VERDICTS[verification.status],
        inputs=inputs,
        verification=verification,
    )
