"""The words in which an incident is told."""

from __future__ import annotations

from collections.abc import Sequence

from preflight.report.parts.alarm_text import ranks
from preflight.report.parts.clean import clean, one_line
from preflight.vocabulary.incident import Culprit, FirstFailure, Incident, Loss, Moment, Quote, Suspect
from preflight.vocabulary.log import DATED, Frame
from preflight.vocabulary.quantity import format_duration, format_share

HOUR, DAY = 3600.0, 86400.0
MINUTES = 600.0
"""Seconds from which on an uncertainty is told in minutes and longer units."""

ROLE_WORDS = {
    "root": "cause",
    "cascade": "consequence",
    "confirmation": "confirmed from outside",
    "teardown": "teardown",
    "progress": "progress",
    "recovered": "recovered",
    "benign": "harmless",
}
_ONSETS = {"start": "at the start", "warm-up": "while warming up", "running": "in the midst of the run"}


def who(numbers: Sequence[int], nodes: Sequence[str]) -> str:
    """Return who it is: ``rank 3 on node-1``."""
    told = ranks(numbers)
    on = ", ".join(clean(node) for node in nodes[:4]) + (f" and {len(nodes) - 4} more" if len(nodes) > 4 else "")
    if told and on:
        return f"{told} on {on}"
    return told or (f"node {on}" if on else "")


def subtitle(incident: Incident) -> str:
    """Return state, onset, category and extent in one line."""
    parts: list[str] = [incident.state]
    if incident.onset is not None:
        wrong = "; went wrong" if incident.state in ("running", "ended") and incident.category != "none" else ""
        parts[0] += f"{wrong} {_ONSETS[incident.onset]}"
    if incident.category != "none":
        parts.append(incident.category + (f" ({sure})" if (sure := how_sure(incident)) else ""))
    if incident.symptom_category not in (None, incident.category):
        parts.append(f"symptom {incident.symptom_category}")
    if incident.signature:
        parts.append(clean(incident.signature))
    if incident.world_size:
        nodes = f" on {len(incident.nodes_seen)} nodes" if len(incident.nodes_seen) > 1 else ""
        parts.append(f"{incident.world_size:,} rank{'s' if incident.world_size > 1 else ''}{nodes}")
    return ", ".join(parts)


def quote_line(quote: Quote, width: int) -> str:
    """Return a line as it stands in its file, cut to about one line of the report; a long path does not shorten it further."""
    where = f"{clean(quote.path)}:{quote.line}: " if quote.line else f"{clean(quote.path)}: "
    text = one_line(quote.text).strip()
    room = max(2 * width - len(where) - 12, width)
    return where + (text if len(text) <= room else f"{text[: room - 3]}...")


def since(seconds: float) -> str:
    """Return a difference of clocks with its sign."""
    return f"{seconds:+.3g} s"


def percent(probability: float) -> str:
    """Return a probability as a percentage that never claims certainty."""
    if probability > 0.99:
        return "over 99 %"
    return format_share(probability) if probability >= 0.01 else "under 1 %"


def culprit_in_words(culprit: Culprit) -> str:
    """Return who began it and how sure that is."""
    named = culprit_name(culprit)
    if not named:
        return f"nobody is named: {one_line(culprit.reason)}" if culprit.reason else "nobody is named"
    return f"{named}, {percent(culprit.confidence)}"


def culprit_name(culprit: Culprit) -> str:
    """Return who began it: ``rank 3 on node-1``, ``one of ranks 0, 2``; nothing where nobody is named."""
    named = who(culprit.ranks, culprit.nodes)
    return f"one of {named}" if named and culprit.one_of else named


def suspect_name(suspect: Suspect) -> str:
    """Return a suspect's rank and node."""
    rank = (suspect.rank,) if suspect.rank is not None else ()
    return who(rank, (suspect.node,) if suspect.node else ()) or "somebody else"


def how_sure(incident: Incident) -> str:
    """Return how sure the category is; nothing where there is none, or none that can be told."""
    return "" if incident.category in ("none", "cannot-tell") else percent(incident.confidence)


def category_in_words(incident: Incident) -> str:
    """Return the category, and that of the symptom where it is another."""
    root, symptom = incident.root_category or incident.category, incident.symptom_category
    return f"{root} (looks like {symptom})" if symptom and symptom != root and symptom != "none" else root


def moment_who(moment: Moment) -> str:
    """Return whom an entry of the timeline is about."""
    about = moment.ranks or ((moment.rank,) if moment.rank is not None else ())
    return who(about, (moment.node,) if moment.node else ())


def clock_time(seconds: float | None, *, first: float = 0.0, day: bool = True, days: bool = False) -> str:
    """Return a time as a person writes it, UTC; that of an unknown day in seconds since ``first``.

    Without its day, for the lines of one run beside each other, it has tenths of a second, else thousandths; with
    month and day alone (``days``), for lines of several days, whole seconds.
    """
    if seconds is None:
        return ""
    if seconds < DATED:
        return f"+{seconds - first:.1f} s"
    import datetime

    at = datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc)
    if days:
        return f"{at:%m-%d %H:%M:%S}"
    if not day:
        return f"{at:%H:%M:%S}.{at.microsecond // 100_000}"
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d}"


def moment_time(moment: Moment, *, first: float = 0.0, day: bool = True, days: bool = False) -> str:
    """Return when it was, with its uncertainty where that is seen, in seconds where no unit is said."""
    shown = clock_time(moment.time, first=first, day=day, days=days)
    error = moment.time_error
    if not shown or error < 0.05 or (days and error < 1):
        return shown
    if error >= MINUTES:
        return f"{shown} ± {format_duration(error)}" if day else f"{shown} ±{format_duration(error)}"
    within = f"{error:.2g}" if error < 10 else f"{error:.0f}"
    return f"{shown} ± {within} s" if day else f"{shown} ±{within}"


def several_days(moments: Sequence[Moment]) -> bool:
    """Return whether dated moments lie on more than one day of UTC and an hour and more apart."""
    dated = [one.time for one in moments if one.time is not None and one.time >= DATED]
    return bool(dated) and max(dated) - min(dated) > HOUR and min(dated) // DAY != max(dated) // DAY


def quote_place(quote: Quote | None) -> str:
    """Return where a quoted line stands."""
    if quote is None:
        return ""
    return f"{clean(quote.path)}:{quote.line}" if quote.line else clean(quote.path)


def first_failure_rows(first: FirstFailure) -> list[tuple[str, str]]:
    """Return what is known of the first failure, name and words."""
    rows = [
        ("rank", "" if first.rank is None else str(first.rank)),
        ("node", clean(first.node or "")),
        ("time (UTC)", clock_time(first.time)),
        ("step", "" if first.step is None else f"{first.step:,}"),
        ("line", f"{clean(first.path)}:{first.line}" if first.path and first.line else clean(first.path or "")),
        ("text", one_line(first.text or "")),
        ("raised in", frame_in_words(first.frame) if first.frame is not None else ""),
    ]
    return [row for row in rows if row[1]]


def frame_in_words(frame: Frame) -> str:
    """Return a place of the program: ``forward (train.py:41): return self.net(x)``, as far as it is told."""
    place = clean(frame.path) if frame.line is None else f"{clean(frame.path)}:{frame.line}"
    where = f"{clean(frame.function)} ({place})" if frame.function else place
    return f"{where}: {one_line(frame.code).strip()}" if frame.code.strip() else where


def hours_lost(hours: float) -> str:
    """Return hours with one decimal; a little is not nothing."""
    return "less than 0.1" if 0 < hours < 0.05 else f"{hours:,.1f}"


def loss_rows(loss: Loss) -> list[tuple[str, str]]:
    """Return what the failures cost, name and words; the reason where nothing is known."""
    rows = []
    if loss.gpu_hours_lost is not None:
        rows.append(("GPU-hours lost", hours_lost(loss.gpu_hours_lost)))
    if loss.steps_lost is not None:
        rows.append(("steps lost", f"{loss.steps_lost:,}"))
    if loss.effective_share is not None:
        rows.append(("effective training time", f"{loss.effective_share * 100:.1f} %"))
    if loss.mean_hours_between_failures is not None:
        low, mid, high = loss.mean_hours_between_failures
        upper = "no upper bound" if high == float("inf") else f"{high:.3g} h"
        rows.append(("mean time between failures", f"{mid:.3g} h (95 %: {low:.3g} h to {upper})"))
    rows += [("arithmetic", one_line(line)) for line in loss.arithmetic]
    if not rows and loss.reason:
        rows.append(("not known", one_line(loss.reason)))
    return rows
