"""Two reports side by side."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import TypeVar

import msgspec

from preflight.compare.values import STEP, Value, values
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
    alike = _kind(before) == _kind(after)
    told = [{(one.aspect, one.name): one for one in values(report)} for report in (before, after)]
    _as_foretold(*told)
    shared = tuple(aspect for aspect in _ORDER if all(any(key[0] == aspect for key in side) for side in told))
    changes = [
        _change(told[0].get(key), told[1].get(key))
        for key in dict.fromkeys([*told[0], *told[1]])
        if key[0] in shared
        and (alike or (key in told[0] and key in told[1]))
        and not _equal(told[0].get(key), told[1].get(key))
    ]
    # What a run's logs do not tell of has not gone from its script: findings are those of one way of looking.
    judged = alike and any(one.told or one.scripts for one in (before, after))
    gone, new, kept = _findings(before.findings, after.findings) if alike else ((), (), 0)
    lost, come, still = _findings(before.alarms, after.alarms) if alike else ((), (), 0)
    comparison = Comparison(
        before=_side(before, names[0]), after=_side(after, names[1]), shared=shared, kept=kept + still,
        changes=tuple(sorted(changes, key=lambda change: _ORDER.index(change.aspect))),
        gone=gone, new=new, gone_violations=lost, new_violations=come,
    )  # fmt: skip
    return Report(
        schema=SCHEMA, command="diff", tool=Tool("preflight", VERSION), verdict=_verdict(comparison, judged),
        inputs={"subject": f"{names[0]} -> {names[1]}"}, findings=new, violations=come, comparison=comparison,
        notes=tuple(_notes(comparison, judged, bool(before.told or after.told))),
    )  # fmt: skip


def _as_foretold(*told: dict[tuple[Aspect, str], Value]) -> None:
    """Call the steps that were measured on one side as those that were foretold on the other, so that they meet."""
    measured: tuple[Aspect, str] = ("time", STEP)
    foretold: tuple[Aspect, str] = ("time", "step")
    if any(foretold in side and measured not in side for side in told):
        for side in told:
            if measured in side and foretold not in side:
                side[foretold] = msgspec.structs.replace(side.pop(measured), name="step")


def _kind(report: Report) -> str:
    """What looked: ``check``, ``plan``, ``monitor`` or ``investigate``, whichever of its commands it was."""
    word = report.command.partition(" ")[0]
    return {"quick": "check", "ui": "monitor"}.get(word, word)


def _notes(found: Comparison, judged: bool, any_findings: bool) -> Iterator[str]:
    """Say what could not be compared, and what each of the two was taken for."""
    both = " and ".join(f"preflight {one.command} tells of {one.name}" for one in (found.before, found.after))
    if not (found.shared or judged):
        yield f"the two have nothing in common that could be compared: {both}"
    elif not judged and any_findings:
        yield f"findings are not compared, since they are of different kinds: {both}"


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


def _verdict(found: Comparison, judged: bool) -> Verdict:
    if not (found.shared or judged):
        return "UNKNOWN"
    if any(one.decides for one in (*found.new, *found.new_violations)):
        return "NO-GO"
    return "NO-GO" if VERDICT_ORDER[found.after.verdict] < VERDICT_ORDER[found.before.verdict] else "GO"
