"""What ``preflight monitor`` saw of the run, put beside its incident: the cause of a silent error, and of numbers that went wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from preflight.investigate.calibration import calibrated
from preflight.investigate.cause.category import SOMETHING_ELSE
from preflight.investigate.diagnose import verdict_of
from preflight.investigate.remedies import remedies_for
from preflight.vocabulary.incident import (
    Culprit,
    FirstFailure,
    Hypothesis,
    Incident,
    Moment,
    NextStep,
    Pointer,
    Reason,
    Suspect,
    Why,
)
from preflight.vocabulary.invariant import Invariant, Provenance, Violation, encoded
from preflight.vocabulary.report import Report

# None of 125 correct programs was alarmed (benchmarks/monitor/detection.md): with 95 % confidence, less than 2.4 % of them are.
ALARM_IS_RIGHT = 0.95
LATE = 100
"""An error that begins before this step begins while the run warms up."""
MOST_NAMES = 3


def with_watched(report: Report, watched: Report, name: str) -> Report:
    """Return the report of an investigation with what the monitor found in the run.

    A run that ended well in its logs and broke an invariant ended with a silent error: the alarm is its cause.
    Where numbers went wrong, an alarm of the same step or before is the cause that the logs do not have.
    Beside any other failure the alarms are shown, and explain nothing.

    Args:
        report: The investigation.
        watched: A report of the monitor.
        name: Where that comes from, as it is shown.
    """
    incident = report.incident
    if incident is None:
        return report
    notes = list(report.notes)
    alarms = watched.alarms
    if not alarms:
        seen = watched.watched
        how = f": {seen.judged} of {seen.in_force} invariants could be judged" if seen is not None else ""
        notes.append(f"preflight monitor found nothing in {name}{how}")
        return msgspec.structs.replace(report, notes=tuple(notes))
    causes = causes_of(incident, alarms)
    if causes:
        world = incident.world_size or (watched.watched.world_size if watched.watched is not None else None)
        incident = _caused(incident, causes, world)
    else:
        notes.append(f"what preflight monitor found in {name} does not explain this failure")
    last = max((one.group for one in report.violations), default=-1) + 1
    found = (msgspec.structs.replace(one, group=one.group + last) for one in watched.violations)
    told = report.inputs.get("watched")
    return msgspec.structs.replace(
        report,
        verdict=verdict_of(incident),
        incident=incident,
        violations=(*report.violations, *found),
        inputs={**report.inputs, "watched": [*told, name] if isinstance(told, list) else [name]},
        notes=tuple(notes),
    )


def causes_of(incident: Incident, alarms: Sequence[Violation]) -> list[Violation]:
    """Return the alarms that tell why, the likeliest first."""
    if _calm(incident):
        causes = [one for one in alarms if one.decides]
    elif "numerical" in (incident.category, incident.root_category, incident.symptom_category):
        step = _step_of(incident)
        causes = [one for one in alarms if step is None or one.first_step <= step]
    else:
        return []
    # A loss that is no number is what everything before it leads to: a cause only where nothing else is told.
    return sorted(causes, key=lambda one: (one.category == "numerical", one.severity != "error", one.first_step))


def _calm(incident: Incident) -> bool:
    """Whether nothing in the logs failed."""
    return incident.category == "none" or (incident.category == "cannot-tell" and incident.signature is None)


def _step_of(incident: Incident) -> int | None:
    told = [one.first_step for one in incident.series if one.kind in ("nonfinite", "divergence", "spike")]
    if incident.first_failure is not None:
        told.append(incident.first_failure.step)
    steps = [step for step in told if step is not None]
    return max(steps, default=None)


def _caused(incident: Incident, causes: Sequence[Violation], world: int | None) -> Incident:
    """Return the incident with the first of the alarms as its cause."""
    root, calm = causes[0], _calm(incident)
    symptom = root.category == "numerical" and not calm
    sure = calibrated("signature" if calm else "symptom", ALARM_IS_RIGHT if root.severity == "error" else 0.0)
    category = root.category or "other"
    told = FirstFailure(
        rank=root.ranks[0] if root.ranks else None, path=root.location.path, line=root.location.line,
        text=root.message, step=root.first_step,
    )  # fmt: skip
    changed = msgspec.structs.replace(
        incident,
        timeline=(*(_moment(one) for one in causes), *incident.timeline),
        caught_by=(*(_pointer(one) for one in causes), *incident.caught_by),
        next=(*_next(root), *incident.next),
    )
    if symptom:  # it tells when and where, not why
        return changed if incident.first_failure is not None else msgspec.structs.replace(changed, first_failure=told)
    hypotheses = _hypotheses(incident, root, sure)
    return msgspec.structs.replace(
        changed,
        state="ended" if calm and incident.state == "unknown" else incident.state,
        onset=incident.onset or ("start" if root.first_step < 1 else "warm-up" if root.first_step < LATE else "running"),
        scope="rank" if _some(root.ranks, world) else "all",
        category=category,
        root_category=category,
        symptom_category=None if calm else "numerical",
        confidence=sure,
        headline=f"{_who(root, world)} from step {root.first_step:,} on: {root.message}",
        culprit=_culprit(root, world, sure) if calm or not incident.culprit.ranks else incident.culprit,
        first_failure=told,
        hypotheses=hypotheses,
        remedies=incident.remedies and remedies_for(msgspec.structs.replace(incident, hypotheses=hypotheses)),
        five_whys=_whys(incident, root, calm),
        reason=None,
    )  # fmt: skip


def _some(ranks: Sequence[int], world: int | None) -> bool:
    return bool(ranks) and world is not None and len(ranks) < world


def _who(root: Violation, world: int | None) -> str:
    if not _some(root.ranks, world):
        return "every rank" if (world or 1) > 1 else "the run"
    return f"rank{'s' if len(root.ranks) > 1 else ''} {', '.join(map(str, root.ranks))}"


def _place(one: Violation) -> str:
    at = one.location
    return f"{at.path}:{at.line}: " if at.path is not None and at.line is not None else ""


def _seen(one: Violation) -> str:
    names = f" ({', '.join(one.variables[:MOST_NAMES])}{' ...' if len(one.variables) > MOST_NAMES else ''})"
    return f"{_place(one)}{one.message}{names if one.variables else ''}"


def _moment(one: Violation) -> Moment:
    return Moment(text=f"preflight monitor: {one.message}", role="root", ranks=one.ranks, step=one.first_step)


def _pointer(one: Violation) -> Pointer:
    """The relation has a page; what was learnt from runs of one's own is named by its id as well."""
    own = f" (invariant {one.invariant})" if one.invariant not in ("", one.relation) else ""
    text = f"preflight monitor told it at step {one.first_step:,}{own}: preflight explain {one.relation}"
    return Pointer(kind="relation", id=one.relation, text=text, draft=_stricter(one))


def _stricter(one: Violation) -> str | None:
    """An invariant that ends a run where this alarm only warned; None where it was an error, or is not said of everything."""
    if one.severity == "error" or one.invariant != one.relation:
        return None
    note = "a warning that came before a failure"
    held = Invariant(
        id=one.invariant, relation=one.relation, text=one.message, severity="error", pinned=True,
        source=Provenance(origin="person", note=note),
    )  # fmt: skip
    return encoded((held,)).decode().strip()


def _next(root: Violation) -> list[NextStep]:
    return [NextStep(text=root.fix.title, kind="act")] if root.fix is not None else []


def _culprit(root: Violation, world: int | None, sure: float) -> Culprit:
    if not _some(root.ranks, world):
        return Culprit(reason="it is seen on every rank" if (world or 1) > 1 else "there is one rank")
    reasons = (Reason(text=f"preflight monitor: {root.message}", weight=math.log(sure / (1 - sure))),)
    share = sure / len(root.ranks)
    suspects = tuple(Suspect(rank=rank, probability=share, reasons=reasons) for rank in root.ranks)
    return Culprit(ranks=root.ranks, confidence=sure, reasons=reasons, suspects=suspects)


def _hypotheses(incident: Incident, root: Violation, sure: float) -> tuple[Hypothesis, ...]:
    """Return the alarm before what was thought of without it, which shares what is left."""
    reason = Reason(
        text=f"preflight monitor at step {root.first_step:,}: {_seen(root)}", weight=math.log(sure / (1 - sure))
    )
    found = Hypothesis(
        cause=root.relation, title=root.message, category=root.category or "other", probability=sure,
        reasons=(reason,), look_at=(f"preflight explain {root.relation}",),
    )  # fmt: skip
    others = incident.hypotheses or (
        Hypothesis(cause=SOMETHING_ELSE, title="something that nothing names", category="other", probability=1.0),
    )
    total = math.fsum(one.probability for one in others) or 1.0
    rest = (msgspec.structs.replace(one, probability=one.probability / total * (1 - sure)) for one in others)
    return (found, *rest)


def _whys(incident: Incident, root: Violation, calm: bool) -> tuple[Why, ...]:
    """Return the chain with the alarm in it: behind what was observed, before the question that stands open."""
    before = [one for one in incident.five_whys if one.answer is not None]
    question = "Why is the training not what it should be?" if calm else "What was wrong before?"
    levels = [Why(question=question, answer=f"step {root.first_step:,}: {_seen(root)}", known="observed")]
    if root.cause:
        levels.append(Why(question="Why that?", answer=root.cause, known="inferred", reason="what usually causes it"))
    untold = "nothing that was read tells; add what you know with: preflight investigate why"
    return (*before, *levels, Why(question="Why was that possible?", answer=None, known="unknown", reason=untold))
