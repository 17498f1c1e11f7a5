"""Two reports side by side."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TypeVar

from preflight.compare.values import Value, values
from preflight.vocabulary.comparison import Aspect, Change, Comparison, Side
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.report import SCHEMA, VERDICT_ORDER, Report, Tool, Verdict
from preflight.vocabulary.version import VERSION

F = TypeVar("F", bound=Finding)

_ORDER: tuple[Aspect, ...] = ("incident", "memory", "time", "cost", "score", "layout", "setting")
_SAME = 5e-4
"""Two numbers nearer than this share of them are the same to three digits."""
_NUMBER = re.compile(r"\d[\d,.]*")


def compare(before: Report, after: Report, names: tuple[str, str]) -> Report:
    """Say what changed from one report to another.

    Args:
        before: The first report.
        after: The second one. The answer is about it: is it worse than the first?
        names: What the two are called.

    Returns:
        A report with ``comparison``; NO-GO where the second one has a deciding finding or alarm that the first one has
        not, or a worse verdict; UNKNOWN where the two have nothing in common.
    """
    told = [{(one.aspect, one.name): one for one in values(report)} for report in (before, after)]
    shared = tuple(aspect for aspect in _ORDER if all(any(key[0] == aspect for key in side) for side in told))
    changes = [
        _change(told[0].get(key), told[1].get(key))
        for key in dict.fromkeys([*told[0], *told[1]])
        if key[0] in shared and not _equal(told[0].get(key), told[1].get(key))
    ]
    gone, new, kept = _findings(before.findings, after.findings)
    lost, come, still = _findings(before.alarms, after.alarms)
    comparison = Comparison(
        before=_side(before, names[0]), after=_side(after, names[1]), shared=shared, kept=kept + still,
        changes=tuple(sorted(changes, key=lambda change: _ORDER.index(change.aspect))),
        gone=gone, new=new, gone_violations=lost, new_violations=come,
    )  # fmt: skip
    return Report(
        schema=SCHEMA, command="diff", tool=Tool("preflight", VERSION), verdict=_verdict(comparison),
        inputs={"subject": f"{names[0]} -> {names[1]}"}, findings=new, violations=come, comparison=comparison,
        notes=() if _told(comparison) else (_nothing(comparison),),
    )  # fmt: skip


def _nothing(found: Comparison) -> str:
    """Say that nothing could be compared, and what each of the two was taken for."""
    both = " and ".join(f"preflight {one.command} tells of {one.name}" for one in (found.before, found.after))
    return f"the two have nothing in common that could be compared: {both}"


def _side(report: Report, name: str) -> Side:
    return Side(name=name, command=report.command, verdict=report.verdict)


def _change(one: Value | None, two: Value | None) -> Change:
    known = two or one
    assert known is not None
    return Change(
        aspect=known.aspect, name=known.name, unit=known.unit, better=known.better,
        before=one.value if one is not None else None, after=two.value if two is not None else None,
    )  # fmt: skip


def _equal(one: Value | None, two: Value | None) -> bool:
    if one is None or two is None:
        return one is two
    a, b = one.value, two.value
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return abs(a - b) <= _SAME * max(abs(a), abs(b))
    return a == b


def _findings(before: Sequence[F], after: Sequence[F]) -> tuple[tuple[F, ...], tuple[F, ...], int]:
    """What only one side has, and how many both have.

    A finding is the same when rule and words are, whatever its line and its numbers: a script grows above it.
    """
    one, two = Counter(map(_identity, before)), Counter(map(_identity, after))
    return _beyond(before, two), _beyond(after, one), sum((one & two).values())


def _beyond(found: Sequence[F], other: Counter[Hashable]) -> tuple[F, ...]:
    left = Counter(other)
    kept = []
    for finding in found:
        key = _identity(finding)
        if left[key] > 0:
            left[key] -= 1
        else:
            kept.append(finding)
    return tuple(kept)


def _identity(finding: Finding) -> Hashable:
    return finding.code, finding.severity, _NUMBER.sub("0", finding.message)


def _told(found: Comparison) -> bool:
    return bool(found.shared or found.gone or found.new or found.kept or found.gone_violations or found.new_violations)


def _verdict(found: Comparison) -> Verdict:
    if not _told(found):
        return "UNKNOWN"
    if any(one.decides for one in (*found.new, *found.new_violations)):
        return "NO-GO"
    return "NO-GO" if VERDICT_ORDER[found.after.verdict] < VERDICT_ORDER[found.before.verdict] else "GO"
