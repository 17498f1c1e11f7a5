"""What goes together with failures; never what causes them."""

from __future__ import annotations

from typing import Literal

import msgspec

Of = Literal["event", "node", "version", "template"]


class Association(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How much more often it fails with something than without it.

    Attributes:
        of: An event in the time before, a node of the job, a version (or another property) of the job, a line of its log.
        name: Its name; for a version ``column=value``.
        window: For events: how long after one a failure counts, in seconds.
        failures: Failures with it, and without it.
        exposure: What they are counted against, with and without: hours for events, jobs else.
        ratio: Rate with over rate without; None where it failed only with it.
        low: Lower end of the interval of 95 %: exact for events, by the score test for jobs.
        high: Upper end; None: there is none.
        p: How probable so many failures with it are by chance.
        q: The same, corrected for everything that was looked at.
        associated: Whether ``q`` is at most 0.05.
        lemon: For nodes: the probability that the odds of a failure on it are more than twice those on the others, after shrinking.
        text: In one sentence.
    """

    of: Of
    name: str
    failures: tuple[int, int]
    exposure: tuple[float, float]
    text: str
    window: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    p: float = 1.0
    q: float = 1.0
    associated: bool = False
    lemon: float | None = None


class Timing(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """When failures come: soon after the start, after long, or at regular times of the clock.

    Attributes:
        kind: ``since-start`` or ``period``.
        value: The shape of the Weibull distribution (below 1: early, above 1: late), or the period in seconds.
        p: How probable it is without any such pattern, corrected for everything that was tried.
        found: Whether ``p`` is at most 0.05.
    """

    kind: Literal["since-start", "period"]
    text: str
    value: float
    p: float
    found: bool
    failures: int


class Associations(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What goes together with the failures of runs.

    Attributes:
        failures: How many failures there are.
        hours: Hours observed, where events were read.
        jobs: Jobs, where jobs were compared.
        tests: How many associations were looked at.
        reason: Why nothing can be said, where nothing can.
        power: How many failures a ratio of five takes to be found four times out of five, in words.
    """

    failures: int
    hours: float | None = None
    jobs: int | None = None
    tests: int = 0
    associations: tuple[Association, ...] = ()
    timing: tuple[Timing, ...] = ()
    reason: str | None = None
    power: str | None = None
    notes: tuple[str, ...] = ()
