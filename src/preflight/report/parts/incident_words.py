"""The words in which an incident is told."""

from __future__ import annotations

from collections.abc import Sequence

from preflight.report.parts.alarm_text import ranks
from preflight.report.parts.clean import clean, one_line
from preflight.vocabulary.incident import Incident, Moment, Quote

_ONSETS = {"start": "at the start", "warm-up": "while warming up", "running": "in the midst of the run"}
# Times before this year are seconds since an unknown start.
_DATED = 86_400.0 * 365


def who(numbers: Sequence[int], nodes: Sequence[str]) -> str:
    """Return who it is: ``rank 3 on node-1``."""
    told = ranks(numbers)
    on = ", ".join(clean(node) for node in nodes[:4]) + (f" and {len(nodes) - 4} more" if len(nodes) > 4 else "")
    if told and on:
        return f"{told} on {on}"
    return told or (f"node {on}" if on else "")


def certainty(probability: float) -> str:
    """Return a probability as it is read: never 1.00."""
    return f"{min(probability, 0.99):.2f}"


def subtitle(incident: Incident) -> str:
    """Return state, onset, category and extent in one line."""
    parts: list[str] = [incident.state]
    if incident.onset is not None:
        parts[0] += f" {_ONSETS[incident.onset]}"
    if incident.category != "none":
        parts.append(f"{incident.category} ({certainty(incident.confidence)})")
    if incident.symptom_category not in (None, incident.category):
        parts.append(f"symptom {incident.symptom_category}")
    if incident.signature:
        parts.append(clean(incident.signature))
    if incident.world_size:
        nodes = f" on {len(incident.nodes_seen)} nodes" if len(incident.nodes_seen) > 1 else ""
        parts.append(f"{incident.world_size:,} rank{'s' if incident.world_size > 1 else ''}{nodes}")
    return ", ".join(parts)


def quote_line(quote: Quote, width: int) -> str:
    """Return a line as it stands in its file, cut to about one line of the report."""
    where = f"{clean(quote.path)}:{quote.line}: " if quote.line else f"{clean(quote.path)}: "
    text = one_line(quote.text).strip()
    room = max(2 * width - len(where) - 12, 40)
    return where + (text if len(text) <= room else f"{text[: room - 3]}...")


def at_time(moment: Moment, first: float | None) -> str:
    """Return when it was: the time of day, or seconds since the first moment, with its uncertainty."""
    if moment.time is None:
        return "?"
    error = f" ±{moment.time_error:.2g}" if moment.time_error >= 0.05 else ""
    if moment.time < _DATED:
        return f"+{moment.time - (first or 0.0):.1f} s{error}"
    from datetime import datetime, timezone

    told = datetime.fromtimestamp(moment.time, timezone.utc)
    return f"{told:%H:%M:%S}.{told.microsecond // 100_000}{error}"


def since(seconds: float) -> str:
    """Return a difference of clocks with its sign."""
    return f"{seconds:+.3g} s"
