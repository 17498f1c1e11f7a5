"""What check, dry run and plan say of the script that failed, put beside its incident: the rules that tell it, the memory by formula."""

from __future__ import annotations

import math

import msgspec

from preflight.investigate.beside.pointers import asks_a_run
from preflight.investigate.observations.memory_arithmetic import numbers_of
from preflight.investigate.whys import weighed_again
from preflight.vocabulary.incident import Hypothesis, Incident, Pointer, Reason, Remedied, Why
from preflight.vocabulary.memory import MemoryEstimate
from preflight.vocabulary.quantity import Interval, format_bytes, format_share
from preflight.vocabulary.report import Report

GIB = 1 << 30
LARGEST_PARTS = 3
NEEDED = "What does the script need?"
TOO_LARGE = "peak-exceeds-device"
WEIGHT = 2.0
"""Logarithm of the odds that an expected peak adds whose whole interval lies on one side of the capacity: about 7 to 1.
The interval is of the formulas; that the script ran with other arguments than were checked stays possible."""


def capacity_of(incident: Incident) -> float | None:
    """Return the size of the card in bytes, where a message of the allocator tells it."""
    quotes = [quote.text for one in incident.hypotheses for reason in one.reasons for quote in reason.quotes]
    first = incident.first_failure
    for text in (*((first.text or "",) if first is not None else ()), *quotes):
        numbers = numbers_of(text) if "ried to allocate" in text else None
        if numbers is not None and numbers.capacity is not None:
            return numbers.capacity
    return None


def sold_as(capacity: float) -> float:
    """Return the GB as which a card with this total is sold: the driver keeps a little of the last one for itself."""
    return float(math.ceil(capacity / GIB))


def with_check(report: Report, checked: Report, name: str) -> Report:
    """Return the report of an investigation with what a check of the script, a dry run or a plan says of its failure.

    Args:
        report: The investigation.
        checked: The check, dry run or plan.
        name: The script; what was planned, where that came of none.
    """
    incident = report.incident
    if incident is None or incident.category == "none":
        return report
    notes = list(report.notes)
    if (
        checked.verdict == "UNKNOWN"
        and not checked.findings
        and (checked.memory is None or _peak(checked.memory) is None)
    ):
        why = checked.memory.reason if checked.memory is not None else None
        notes.append(f"{_teller(checked)} says nothing of {name}: {why or 'no training was recognised in it'}")
        return msgspec.structs.replace(report, notes=tuple(notes))
    wanted = {one.id for one in incident.caught_by if one.kind == "rule"}
    found = [finding for finding in checked.findings if finding.rule in wanted]
    told = tuple(
        Pointer(
            kind="rule",
            id=one.rule,
            text=f"{name}{f':{one.location.line}' if one.location.line else ''}: {one.message}",
        )
        for one in found
    )
    asked = {one for one in wanted if _was_asked(one, checked)}
    if asked and not found:
        notes.append(f"{_teller(checked)} finds none of {', '.join(sorted(asked))} in {name}")
    rest = tuple(one for one in incident.caught_by if one.kind != "rule" or one.id not in asked)
    whys, hypotheses, remedies = incident.five_whys, incident.hypotheses, incident.remedies
    if incident.category == "oom":
        if checked.memory is None or _peak(checked.memory) is None:
            why = checked.memory.reason if checked.memory is not None else None
            notes.append(f"the memory of {name} cannot be computed: {why or 'no training was recognised in it'}")
        else:
            said, arithmetic = _expected(checked.memory, capacity_of(incident), name, _teller(checked))
            told += (Pointer(kind="plan", id="peak", text=f"{said} ({arithmetic})"),)
            # Of several that say it the first counts: they rest on the same script.
            if not any(one.question == NEEDED for one in whys):
                whys = _between(whys, Why(question=NEEDED, answer=said, known="inferred", reason=arithmetic))
                hypotheses = _weighed(hypotheses, said, checked.memory, capacity_of(incident))
                whys = weighed_again(whys, hypotheses)
                remedies = _said_again(remedies, incident.hypotheses, hypotheses)
    told_by = {} if checked.command != "check" else {"script_checked": name}
    return msgspec.structs.replace(
        report,
        notes=tuple(notes),
        inputs={**report.inputs, **told_by},
        incident=msgspec.structs.replace(
            incident, caught_by=(*told, *rest), five_whys=whys, hypotheses=hypotheses, remedies=remedies
        ),
    )


def _peak(memory: MemoryEstimate) -> Interval | None:
    return memory.device_bytes or memory.reserved_bytes or memory.peak_bytes


def _was_asked(rule: str, checked: Report) -> bool:
    """Whether a rule that found nothing would not have told it; one that was not asked might have."""
    if checked.command != "check" or any(one.rule == rule for one in checked.not_evaluated):
        return False
    ran = checked.memory is not None and checked.memory.method == "dry-run"
    return ran or not asks_a_run(rule)


def _teller(checked: Report) -> str:
    ran = checked.memory is not None and checked.memory.method == "dry-run"
    return f"preflight {checked.command}{' --dry-run' if ran else ''}"


def _expected(memory: MemoryEstimate, capacity: float | None, name: str, teller: str) -> tuple[str, str]:
    """Return what the formulas expect beside what the card has, and the largest parts of it."""
    peak = _peak(memory)
    if peak is None:
        raise ValueError("a memory without a peak")
    said = f"{teller} expects a peak of {format_bytes(peak.mid)} in {name} ({format_bytes(peak.low)} to {format_bytes(peak.high)})"
    if capacity is not None:
        card = format_bytes(capacity)
        if peak.low > capacity:
            said += f", and the card has {card}: the step cannot fit"
        elif peak.high < capacity:
            said += f", and the card has {card}: the step should fit; look for what grows, for other processes, for what the script does not show"
        else:
            said += f", and the card has {card}: that is within the interval"
    parts = memory.breakdown
    sizes = sorted(((getattr(parts, part), part) for part in parts.__struct_fields__), reverse=True) if parts else []
    largest = [f"{part.replace('_', ' ')} {format_bytes(size)}" for size, part in sizes[:LARGEST_PARTS] if size > 0]
    return said, ", ".join(largest) or "no parts are known"


def _weighed(
    found: tuple[Hypothesis, ...], said: str, memory: MemoryEstimate, capacity: float | None
) -> tuple[Hypothesis, ...]:
    """Let what was expected speak for or against a step that is too large; the probabilities add up to what they did."""
    peak = _peak(memory)
    held = next((one for one in found if one.cause == TOO_LARGE), None)
    if peak is None or capacity is None or held is None or not 0.0 < held.probability < 1.0:
        return found
    weight = WEIGHT if peak.low > capacity else -WEIGHT if peak.high < capacity else 0.0
    if not weight:
        return found
    total = sum(one.probability for one in found)
    factor = math.exp(weight)
    scale = total / (total + held.probability * (factor - 1))
    changed = [
        msgspec.structs.replace(
            one,
            probability=one.probability * scale * (factor if one is held else 1.0),
            reasons=(*one.reasons, Reason(text=said, weight=weight)) if one is held else one.reasons,
        )
        for one in found
    ]
    return tuple(sorted(changed, key=lambda one: -one.probability))


def _said_again(
    remedies: tuple[Remedied, ...], before: tuple[Hypothesis, ...], after: tuple[Hypothesis, ...]
) -> tuple[Remedied, ...]:
    """Let remedies name the causes with the probability that these have now."""
    now = {one.cause: one.probability for one in after}
    changed = {
        f"{one.title} ({format_share(one.probability)})": f"{one.title} ({format_share(now[one.cause])})"
        for one in before
    }
    told = []
    for one in remedies:
        old = next((text for text in changed if text in one.why), None)
        told.append(msgspec.structs.replace(one, why=one.why.replace(old, changed[old])) if old else one)
    return tuple(told)


def _between(whys: tuple[Why, ...], level: Why) -> tuple[Why, ...]:
    """Put a level before the question that stands open at the end."""
    end = len(whys) - 1 if whys and whys[-1].answer is None else len(whys)
    return (*whys[:end], level, *whys[end:])
