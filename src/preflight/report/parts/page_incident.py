"""An incident as the page draws it: who began it, a timeline, a map of ranks over time, and what to do."""

from __future__ import annotations

from typing import Any

from preflight.report.parts.alarm_text import ranks
from preflight.report.parts.clean import clean, one_line
from preflight.report.parts.incident_words import (
    ROLE_WORDS,
    category_in_words,
    clock_time,
    culprit_in_words,
    culprit_name,
    first_failure_rows,
    hours_lost,
    how_sure,
    loss_rows,
    moment_time,
    moment_who,
    percent,
    quote_place,
    suspect_name,
)
from preflight.report.pictures.heatmap import heatmap
from preflight.report.pictures.incident import MOST_MOMENTS, incident_picture, since
from preflight.vocabulary.incident import Activity, Attempt, Incident, Moment, Reason
from preflight.vocabulary.tree import Walk

MOST_SUSPECTS = 10
_KNOWN = {"observed": "good", "inferred": "", "unknown": "bad"}


def incident_tiles(incident: Incident) -> list[dict[str, str]]:
    """Return what stands at the top of the page."""
    sure = how_sure(incident)
    tiles = [
        {"name": "State", "value": incident.state, "note": _when(incident), "tone": ""},
        {
            "name": "Cause" if incident.root_category else "Looks like",
            "value": category_in_words(incident),
            "note": f"{sure} sure" if sure else "",
            "tone": "",
        },
    ]
    culprit = incident.culprit
    if culprit.ranks or culprit.nodes:
        who = ranks(culprit.ranks) or ", ".join(clean(node) for node in culprit.nodes)
        who = f"one of {who}" if culprit.one_of else who
        tiles.append({"name": "Began with", "value": who, "note": f"{percent(culprit.confidence)} sure", "tone": "bad"})
    if incident.loss is not None and incident.loss.gpu_hours_lost:
        lost = f"{hours_lost(incident.loss.gpu_hours_lost)} GPU-hours"
        tiles.append({"name": "Lost", "value": lost, "note": "", "tone": ""})
    return tiles


def _when(incident: Incident) -> str:
    onset = {"start": "at the start", "warm-up": "while warming up", "running": "while running"}
    scope = {"rank": "one rank", "node": "one node", "all": "all ranks"}
    words = (onset.get(incident.onset or ""), scope.get(incident.scope or ""))
    return ", ".join(word for word in words if word)


def incident_view(incident: Incident, walk: Walk | None = None) -> dict[str, Any]:
    """Return everything that the page shows of an incident, by the names that its template uses."""
    return {
        "headline": one_line(incident.headline),
        "reason": one_line(incident.reason or ""),
        **_who(incident),
        **_why(incident),
        **_when_and_where(incident),
        **_what_to_do(incident),
        "walk": _walk(walk) if walk is not None else None,
    }


def _who(incident: Incident) -> dict[str, Any]:
    """Return who began it, and who else may have."""
    return {
        "first": first_failure_rows(incident.first_failure) if incident.first_failure is not None else [],
        "culprit": culprit_in_words(incident.culprit),
        "named": bool(culprit_name(incident.culprit)),
        "culprit_reasons": [_reason(reason) for reason in incident.culprit.reasons],
        "suspects": [
            {
                "name": suspect_name(suspect),
                "probability": percent(suspect.probability),
                "share": round(100 * suspect.probability, 1),
                "reasons": "; ".join(one_line(reason.text) for reason in suspect.reasons[:3]),
            }
            for suspect in incident.culprit.suspects[:MOST_SUSPECTS]
        ],
    }


def _why(incident: Incident) -> dict[str, Any]:
    """Return the cause with its reasons, what else it may be, and what it is not."""
    return {
        "reasons": [_reason(reason) for reason in incident.reasons],
        "hypotheses": [
            {
                "title": one_line(one.title),
                "category": one.category,
                "probability": percent(one.probability),
                "share": round(100 * one.probability, 1),
                "tells": "; ".join(one_line(what) for what in one.look_at or one.discriminated_by),
            }
            for one in incident.hypotheses
        ],
        "ruled_out": [_reason(reason) for reason in incident.ruled_out],
        "whys": [
            {
                "question": one_line(why.question),
                "answer": one_line(why.answer or why.reason or "not known"),
                "known": why.known,
                "tone": _KNOWN[why.known],
                "places": ", ".join(quote_place(quote) for quote in why.quotes),
            }
            for why in incident.five_whys
        ],
        "series": [(clean(one.kind), one_line(one.text), _alarm(one.false_alarms)) for one in incident.series],
    }


def _when_and_where(incident: Incident) -> dict[str, Any]:
    """Return what happened in order, on which ranks, and how well that order is known."""
    return {
        "lanes": incident_picture(incident.timeline, incident.culprit.ranks),
        "timeline": [_moment(moment) for moment in incident.timeline[:MOST_MOMENTS]],
        "timeline_left": max(len(incident.timeline) - MOST_MOMENTS, 0),
        "consequences": [_moment(moment) for moment in incident.consequences],
        "recovered": [_moment(moment) for moment in incident.recovered],
        "map": _map(incident.activity, incident.culprit.ranks) if incident.activity is not None else None,
        "attempts": [_attempt(attempt) for attempt in incident.attempts],
        "clocks": [
            (clean(one.node), f"{one.ahead:+.3f} s", f"± {one.error:.3f} s", str(one.markers))
            for one in incident.clocks
        ],
        "unknown": [
            (str(one.count), ranks(one.ranks), one_line(one.template), quote_place(one.quote))
            for one in incident.unknown
        ],
    }


def _what_to_do(incident: Incident) -> dict[str, Any]:
    """Return what tells more, what mends it, what it cost, and what would have caught it before."""
    return {
        "next": [
            {
                "text": one_line(step.text).removeprefix("look at "),
                "kind": "do" if step.kind == "act" else "look",
                "command": one_line(step.command or ""),
                "cost": one_line(step.cost or ""),
            }
            for step in incident.next
        ],
        "remedies": [
            {
                "title": one_line(one.title),
                "kind": one.kind,
                "why": one_line(one.why),
                "change": one_line(one.change or ""),
                "verification": one_line(one.verification or ""),
                "name": clean(one.remedy),
            }
            for one in incident.remedies
        ],
        "caught_by": [
            {"kind": one.kind, "id": clean(one.id), "text": one_line(one.text), "draft": one.draft or ""}
            for one in incident.caught_by
        ],
        "loss": loss_rows(incident.loss) if incident.loss is not None else [],
    }


def _alarm(rate: float | None) -> str:
    return f"wrong on {percent(rate)} of healthy series" if rate is not None else ""


def _reason(reason: Reason) -> dict[str, Any]:
    return {
        "text": one_line(reason.text),
        "side": "for" if reason.weight > 0 else "against" if reason.weight < 0 else "neither",
        "quotes": [{"place": quote_place(quote), "text": one_line(quote.text)} for quote in reason.quotes],
    }


def _moment(moment: Moment) -> dict[str, str]:
    step = f"step {moment.step:,}" if moment.step is not None else ""
    return {
        "time": moment_time(moment) or step,
        "who": moment_who(moment),
        "role": moment.role,
        "word": ROLE_WORDS.get(moment.role, clean(moment.role)),
        "text": one_line(moment.text) + (f" ({moment.count} times)" if moment.count > 1 else ""),
        "place": quote_place(moment.quote),
    }


def _attempt(attempt: Attempt) -> tuple[str, ...]:
    steps = "" if attempt.last_step is None else f"{attempt.first_step or 0:,} to {attempt.last_step:,}"
    told = one_line(attempt.text) or ranks(attempt.culprit)
    return (str(attempt.number), clock_time(attempt.began), attempt.state, steps, attempt.category or "", told)


def _map(activity: Activity, culprits: tuple[int, ...]) -> dict[str, Any] | None:
    """Return who spoke when: a row for each rank; the culprits first where not all fit."""
    if not activity.rows:
        return None
    whole = max(len(row) for row in activity.rows.values()) * activity.width
    found = heatmap(
        ((rank, float(at), count) for rank, row in activity.rows.items() for at, count in enumerate(row)),
        ranks=activity.rows,
        first=0.0,
        last=whole / activity.width,
        width=1.0,
        ticks=[{"at": share, "name": _tick(activity, whole * share / 100)} for share in (0, 25, 50, 75)],
        title=lambda rank, at, count: f"rank {rank}, {_span(activity, int(at))}: {count}",
        accused=culprits,
    )
    return found and {**found, "unit": "time" if activity.unit == "seconds" else "step"}


def _tick(activity: Activity, after: float) -> str:
    return since(after) if activity.unit == "seconds" else f"step {int(activity.first + after):,}"


def _span(activity: Activity, at: int) -> str:
    start = activity.first + at * activity.width
    return clock_time(start) if activity.unit == "seconds" else f"step {int(start):,}"


def _walk(walk: Walk) -> dict[str, Any]:
    """Return the way through the decision trees."""
    return {
        "steps": [
            {
                "text": one_line(step.text),
                "answer": one_line(step.answer or "?"),
                "because": one_line(step.because),
                "places": ", ".join(quote_place(quote) for quote in step.quotes),
            }
            for step in walk.steps
        ],
        "end": one_line(walk.leaf.text if walk.leaf is not None else f"It cannot be told; to go on: {walk.open or ''}"),
        "next": [one_line(text) for text in walk.leaf.next] if walk.leaf is not None else [],
    }
