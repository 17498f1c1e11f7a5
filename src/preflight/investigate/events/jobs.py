"""Good jobs against bad ones: nodes, versions and lines of logs that the bad ones have more often."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from preflight.investigate.events.timing import LEAST, LEVEL
from preflight.investigate.statistics.beta import incomplete
from preflight.investigate.statistics.binomial import fisher, share_ratio_interval
from preflight.investigate.statistics.multiple import benjamini_hochberg
from preflight.vocabulary.association import Association, Of


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One job: whether it failed, on which nodes it ran, what it ran with, which templates its log has."""

    name: str
    failed: bool
    nodes: tuple[str, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    templates: tuple[str, ...] = ()


def compare_jobs(jobs: Sequence[Job]) -> list[Association]:
    """Everything that some jobs have and some have not, against whether they failed; each family is corrected for its size."""
    found = [
        *_family(jobs, "node", lambda job: job.nodes),
        *_family(jobs, "version", lambda job: tuple(f"{name}={value}" for name, value in job.versions)),
        *_family(jobs, "template", lambda job: job.templates),
    ]
    return sorted(found, key=lambda one: (one.q, one.p, -(one.ratio or math.inf)))


def _family(jobs: Sequence[Job], of: Of, having: Callable[[Job], Sequence[str]]) -> list[Association]:
    told = [(set(having(job)), job.failed) for job in jobs if having(job) or of == "template"]
    names = sorted(set().union(*(names for names, _ in told))) if told else []
    tables = []
    for name in names:
        a = sum(name in has and bad for has, bad in told)
        b = sum(name in has and not bad for has, bad in told)
        c, d = sum(bad for _, bad in told) - a, sum(not bad for _, bad in told) - b
        if a + b and c + d:
            tables.append((name, a, b, c, d))
    if not tables or sum(bad for _, bad in told) < LEAST:
        return []
    chances = [fisher(a, b, c, d) for _, a, b, c, d in tables]
    corrected = benjamini_hochberg(chances)
    lemons = _lemons([(a, a + b) for _, a, b, _, _ in tables]) if of == "node" else [None] * len(tables)
    return [
        _row(of, *table, p, q, lemon) for table, p, q, lemon in zip(tables, chances, corrected, lemons, strict=True)
    ]


def _row(of: Of, name: str, a: int, b: int, c: int, d: int, p: float, q: float, lemon: float | None) -> Association:
    ratio = (a / (a + b)) / (c / (c + d)) if c else None
    low, high = share_ratio_interval(a, a + b, c, c + d)
    associated = q <= LEVEL
    times = f"{ratio:.1f} times as often" if ratio is not None else "only with it" if a else "never"
    text = f"{a} of {a + b} jobs with {name} failed, {c} of {c + d} without: {times}, " + (
        "associated" if associated else "not told from chance"
    )
    return Association(
        of=of, name=name, failures=(a, c), exposure=(float(a + b), float(c + d)), ratio=ratio, low=low,
        high=high if math.isfinite(high) else None, p=p, q=q, associated=associated, lemon=lemon, text=text,
    )  # fmt: skip


def _lemons(counts: Sequence[tuple[int, int]]) -> list[float | None]:
    """For each node the probability that the odds of a failure on it are more than twice those on the others.

    Shares of nodes are taken as drawn from a beta distribution (for rare failures that is the gamma-Poisson model) whose width is
    that of what is seen beyond chance; a node with few jobs is thereby drawn to the share of the others.
    """
    jobs, failures = sum(count for _, count in counts), sum(bad for bad, _ in counts)
    share = failures / jobs if jobs else 0.0
    if not 0 < share < 1:
        return [None] * len(counts)
    # Seen variance of the counts beyond the binomial one, against what it would be at full width.
    beyond = sum((bad - share * count) ** 2 - share * (1 - share) * count for bad, count in counts)
    width = sum(share * (1 - share) * count * (count - 1) for _, count in counts)
    spread = min(0.5, max(0.02, beyond / width)) if width else 0.02
    strength = 1 / spread - 1
    found: list[float | None] = []
    for bad, count in counts:
        others = jobs - count
        rest = (failures - bad + 0.5) / (others + 1) if others else share
        twice = 2 * rest / (1 - rest)
        found.append(1.0 - incomplete(rest * strength + bad, (1 - rest) * strength + count - bad, twice / (1 + twice)))
    return found
