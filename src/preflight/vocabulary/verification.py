"""A verification: whether a fix fixed what it should, and what it cost."""

from __future__ import annotations

from typing import Literal

import msgspec

Fixed = Literal["FIXED", "NOT_FIXED", "REGRESSION", "INCONCLUSIVE"]
Direction = Literal["higher", "lower", "equal"]
"""Which way a metric is better; ``equal``: it must not change."""
Outcome = Literal["pass", "fail", "other", "timeout", "infra"]
"""How a trial ended: well, with the problem, with another failure, not within its deadline, or for reasons outside of it."""


class Side(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What was seen before or after the change.

    Attributes:
        runs: Runs that count.
        failed: Those with the problem.
        others: Those that failed in another way, or did not end within their deadline.
        exposure: What the failures are counted against, in ``Problem.unit``.
        left_out: Runs that do not count: they ended for outside reasons, or never came to where it failed before.
    """

    runs: int
    failed: int
    others: int = 0
    exposure: float = 0.0
    left_out: int = 0


class Problem(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Whether the problem is gone.

    Attributes:
        verdict: ``gone``, ``there`` or ``undecided``.
        text: Why, in one sentence.
        what: The problem: a signature, a category, or ``any failure``.
        unit: ``runs``, ``steps`` or ``hours``.
        method: The test.
        p: How probable what was seen is where the change changed nothing.
        rate_before: Failures by unit before, an interval of 95 %.
        rate_after: The failures by unit that are still possible after it, with 95 % confidence.
        needed: Units without a failure that are still missing; None where nothing is, or no number is enough.
    """

    verdict: Literal["gone", "there", "undecided"]
    text: str
    what: str
    unit: str
    method: str
    before: Side
    after: Side
    p: float | None = None
    rate_before: tuple[float, float] | None = None
    rate_after: float | None = None
    needed: int | None = None


class Compared(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One metric before and after.

    Attributes:
        metric: Its name.
        direction: Which way is better, and who said so (``declared`` or ``known``).
        verdict: ``same`` (within the margin), ``better``, ``worse`` or ``undecided``.
        ratio: After over before, with ``low`` and ``high`` of an interval of 90 % (its ends are one-sided tests at 5 %).
        p: How probable a change for the worse of this size is where there is none, corrected for the number of metrics.
        values: How many values there are on each side.
        needed: How many values on each side would decide, about.
    """

    metric: str
    direction: Direction
    told_by: Literal["declared", "known"]
    verdict: Literal["same", "better", "worse", "undecided"]
    text: str
    margin: float
    before: float | None = None
    after: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    values: tuple[int, int] = (0, 0)
    of: Literal["runs", "steps"] = "runs"
    method: str = ""
    needed: int | None = None


class Verification(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the trials before and after a change show; ``needed`` is what an INCONCLUSIVE one lacks."""

    status: Fixed
    text: str
    problem: Problem | None = None
    metrics: tuple[Compared, ...] = ()
    needed: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    alpha: float = 0.05
