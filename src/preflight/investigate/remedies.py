"""Which remedies apply to an incident, and why: by its causes and by what its signatures name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from preflight.catalog.files import Folders
from preflight.catalog.remedy_files import load_remedies
from preflight.vocabulary.incident import Incident, Remedied
from preflight.vocabulary.quantity import format_share
from preflight.vocabulary.remedy import (
    CallChange,
    Change,
    EnvironmentChange,
    Remedy,
    SettingChange,
    StatementChange,
)

LEAST = 0.05
"""What is less probable than this is not answered with a remedy."""
KNOWN = 0.5
"""From this probability on a cause is mended rather than looked for."""
MOST = 8
_DANGER = {"none": 0, "low": 1, "medium": 2, "high": 3}


def remedies_for(
    causes: Incident | Mapping[str, float],
    signature: str | None = None,
    extra: Folders = (),
    most: int = MOST,
    without: Sequence[str] = (),
) -> tuple[Remedied, ...]:
    """Return the remedies for the causes of an incident, those against the likeliest cause first.

    Among equals, what gets the run going comes before what takes the cause away later, and what only hides the cause
    comes last. What only lets the cause be seen comes first where it is not known, and after what mends it where it is.

    Args:
        causes: An incident, or probabilities of causes by name.
        signature: What was seen, where only causes are given.
        extra: Folders of the user's catalog.
        most: How many at most.
        without: Remedies that are in force already.
    """
    titles: dict[str, str] = {}
    if isinstance(causes, Incident):
        signature = signature or causes.signature
        titles = {one.cause: one.title for one in causes.hypotheses}
        causes = {one.cause: one.probability for one in causes.hypotheses}
    named = _named(signature, extra)
    ranked = []
    for remedy in load_remedies(extra):
        against = sorted((c for c in remedy.causes if causes.get(c, 0.0) >= LEAST), key=lambda c: -causes[c])
        fits = signature is not None and any(fnmatchcase(signature, pattern) for pattern in remedy.signatures)
        if remedy.id in without or (not against and remedy.id not in named and not fits):
            continue
        weight = min(sum(causes[c] for c in against), 1.0)
        why = _why(against, causes, titles) if against else f"named for {signature}"
        order = (-round(weight, 3), remedy.hides, remedy.observes == (weight >= KNOWN), remedy.kind != "immediate")
        ranked.append(((*order, _DANGER[remedy.danger], remedy.id), remedy, why))
    ranked.sort(key=lambda one: one[0])
    return tuple(_remedied(remedy, why) for _, remedy, why in ranked[:most])


def _named(signature: str | None, extra: Folders) -> frozenset[str]:
    """Remedies that the signature itself names."""
    if signature is None:
        return frozenset()
    from preflight.catalog.signature_files import load_signature

    found = load_signature(signature, extra)
    return frozenset(found.remedies if found is not None else ())


def _why(against: Sequence[str], causes: Mapping[str, float], titles: Mapping[str, str]) -> str:
    first = against[0]
    said = titles.get(first) or first.replace("-", " ")
    more = f", and {len(against) - 1} more" if len(against) > 1 else ""
    return f"against: {said} ({format_share(causes[first])}){more}"


def _remedied(remedy: Remedy, why: str) -> Remedied:
    change = "; ".join(change_text(change) for change in remedy.changes) or remedy.instruction or None
    if remedy.hides:
        why = f"{why}; it lets the run go on and leaves the cause"
    verification = remedy.verification if remedy.command is None else f"{remedy.verification} ({remedy.command})"
    return Remedied(
        remedy=remedy.id, title=remedy.title, kind=remedy.kind, why=why, change=change, verification=verification
    )


def change_text(change: Change) -> str:
    """Return a change in one line, as a person reads it."""
    if isinstance(change, EnvironmentChange):
        return f"unset {change.variable}" if change.value is None else f"export {change.variable}={change.value}"
    if isinstance(change, SettingChange):
        name = change.names[0]
        if change.factor is not None:
            times = f"{change.factor:g} x" if change.factor >= 1 else f"{_fraction(change.factor)} of"
            return f"{name}: {times} what it was"
        return f"{name}: {str(change.value).lower() if isinstance(change.value, bool) else change.value}"
    if isinstance(change, CallChange):
        return f"{change.calls[0]}(..., {change.keyword}={change.value})"
    assert isinstance(change, StatementChange)
    return f"{change.line} {change.where} {change.calls[0]}(...)"


def _fraction(factor: float) -> str:
    return {0.5: "half", 0.1: "a tenth", 0.25: "a quarter"}.get(factor, f"{factor:g}")


__all__ = ["change_text", "remedies_for"]
