"""What a report has to say, as findings: the form in which other programs take it."""

from __future__ import annotations

from preflight.report.parts.sentences import advice
from preflight.vocabulary.finding import Confidence, Evidence, Finding, Fix, Location, Related
from preflight.vocabulary.incident import Incident, Quote
from preflight.vocabulary.quantity import format_share
from preflight.vocabulary.report import Report

_CERTAIN, _LIKELY = 0.9, 0.5
_MOST_RELATED = 8


def results(report: Report) -> tuple[Finding, ...]:
    """Return the findings and alarms, the incident as one more where it is not one of them, and the bare verdict where it is NO-GO for none of them.

    Programs that read findings alone would otherwise take a failed run, or a plan that does not fit, for a clean one.
    """
    told = report.told
    incident = report.incident
    if incident is not None and report.verdict != "GO" and (incident.signature is not None or not told):
        return (*told, _of_incident(incident, report.verdict))
    return told or ((_of_verdict(report),) if report.verdict == "NO-GO" else ())


def code_of(incident: Incident) -> str:
    """Return what an incident is called: its signature, else its category."""
    return incident.signature or incident.category


def _of_incident(incident: Incident, verdict: str) -> Finding:
    first = incident.first_failure
    rank = incident.culprit.ranks[0] if incident.culprit.ranks else None
    at = Location(rank=rank, node=incident.culprit.nodes[0] if incident.culprit.nodes else None)
    evidence = []
    if first is not None:
        at = Location(
            path=first.path, line=first.line, rank=first.rank, node=first.node, step=first.step, time=first.time
        )
        evidence += [Evidence(what="the first line that tells of it", value=first.text, source="measured")]
    evidence += [
        Evidence(what="what may be behind it", value=f"{one.title} ({format_share(one.probability)})")
        for one in incident.hypotheses[:3]
        if one.cause != "other"
    ]
    remedy = incident.remedies[0] if incident.remedies else None
    name = code_of(incident)
    return Finding(
        rule=name,
        code=name,
        severity="error" if verdict == "NO-GO" else "warning",
        confidence=_confidence(incident.confidence),
        message=incident.headline,
        location=at,
        related=tuple(_related(incident, at)),
        evidence=tuple(evidence),
        fix=Fix(title=remedy.title, instruction=remedy.change) if remedy is not None else None,
    )


def _confidence(probability: float) -> Confidence:
    return "certain" if probability >= _CERTAIN else "likely" if probability >= _LIKELY else "possible"


def _related(incident: Incident, at: Location) -> list[Related]:
    """Return other lines that speak for who began it, and those of the timeline."""
    told: dict[tuple[str, int], Related] = {}
    quoted: list[tuple[Quote, str]] = [
        (quote, reason.text) for reason in incident.culprit.reasons for quote in reason.quotes
    ]
    quoted += [(moment.quote, moment.text) for moment in incident.timeline if moment.quote is not None]
    for quote, said in quoted:
        if (quote.path, quote.line) != (at.path, at.line):
            told.setdefault((quote.path, quote.line), Related(Location(path=quote.path, line=quote.line), said))
    return list(told.values())[:_MOST_RELATED]


def _of_verdict(report: Report) -> Finding:
    given = next((report.inputs[key] for key in ("path", "script", "config") if report.inputs.get(key)), None)
    name = f"{report.command.replace(' ', '-')}-verdict"
    return Finding(
        rule=name,
        code=name,
        severity="error",
        confidence="certain",
        message=advice(report) or report.verdict,
        location=Location(path=given if isinstance(given, str) else None),
    )


__all__ = ["code_of", "results"]
