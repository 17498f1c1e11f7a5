"""Sentences that several formats say: verdicts, places, counts, memory. Plain text, made harmless."""

from __future__ import annotations

from preflight.report.parts.associations_text import associated
from preflight.report.parts.clean import clean, one_line
from preflight.vocabulary.comparison import Comparison
from preflight.vocabulary.finding import Evidence, Finding, Location
from preflight.vocabulary.memory import MemoryEstimate, Oom
from preflight.vocabulary.quantity import Interval, format_bytes, format_seconds
from preflight.vocabulary.report import Life, Report
from preflight.vocabulary.watched import Watched

SEVERITY_WORDS = {"error": ("error", "errors"), "warning": ("warning", "warnings"), "info": ("note", "notes")}
FITS_WORDS = {"yes": "fits", "no": "does not fit", "unknown": "not known whether it fits"}
PHASE_WORDS = {
    "init": "while the model is built",
    "forward": "in the forward pass",
    "backward": "in the backward pass",
    "optimizer": "in the optimizer step",
    "eval": "in the evaluation",
    "growth": "because memory grows from step to step",
}


MOST_NAMED = 4
_DATES = (1e8, 2.5e11)  # seconds of a location between these count from 1970, as those of logs do
"""So many files or folders are named where a report is about several."""


def subject(report: Report) -> str:
    """Return what the report is about: the path of the script, or how many there are."""
    if len(report.scripts) > 1:
        return f"{len(report.scripts)} scripts"
    given = (
        report.inputs.get("subject")
        or report.inputs.get("path")
        or report.inputs.get("script")
        or report.inputs.get("paths")
    )
    if isinstance(given, (list, tuple)):
        shown = ", ".join(str(path) for path in given[:MOST_NAMED])
        given = shown if len(given) <= MOST_NAMED else f"{shown} and {len(given) - MOST_NAMED} more"
    if given:
        return clean(given)
    paths = sorted({finding.location.path for finding in report.told if finding.location.path})
    return clean(paths[0]) if len(paths) == 1 else report.command


def of_severity(report: Report, severity: str) -> list[Finding]:
    """Return what is told as one finding, of one severity, in the order of the report."""
    return [finding for finding in report.told if finding.severity == severity]


def findings_of(report: Report, severity: str) -> list[Finding]:
    """Return the findings of one severity without the alarms of a watched run, which have a section of their own."""
    return [finding for finding in report.findings if finding.severity == severity]


def counts(report: Report, *, always: tuple[str, ...] = ("error", "warning")) -> str:
    """Return how many findings there are of each severity: ``2 errors, 1 warning``."""
    said = []
    for severity, (one, many) in SEVERITY_WORDS.items():
        number = len(of_severity(report, severity))
        if number or severity in always:
            said.append(f"{number} {one if number == 1 else many}")
    return ", ".join(said)


_OF_WHAT_RUNS = ("investigate triage",)
"""Commands that look at a run that is there already: nothing is to be fixed before it."""


def advice(report: Report) -> str | None:
    """Return why the verdict is what it is, or what to do next; None when nothing in the report says so."""
    memory = report.memory
    if report.incident is not None:
        return one_line(report.incident.headline)
    if report.plan is not None:
        return _of_plan(report)
    if report.watched is not None:
        return _of_watched(report.watched)
    if report.verdict == "NO-GO":
        deciding = sum(finding.decides for finding in report.told)
        does_not_fit = memory is not None and memory.fits == "no"
        if deciding and report.command in _OF_WHAT_RUNS:
            first = next(finding for finding in report.told if finding.decides)
            return one_line(first.message) + (f"; and {deciding - 1} more" if deciding > 1 else "")
        if deciding:
            return f"fix the {'error' if deciding == 1 else 'errors'} before training"
        if does_not_fit:
            return "make the run fit before training"
        return None
    if report.verdict == "UNKNOWN":
        if memory is not None and memory.fits == "unknown" and memory.capacity_bytes is not None:
            return "whether the run fits in memory is not known" + (
                f": {one_line(memory.reason)}" if memory.reason else ""
            )
        return one_line(report.notes[0]) if report.notes else None
    if memory is not None and memory.capacity_bytes is None:
        return "memory was not compared: no GPU was named"
    return None


def _of_watched(watched: Watched) -> str:
    """Return how much of a run was judged."""
    ranks = f" on {len(watched.ranks)} ranks" if len(watched.ranks) > 1 else ""
    steps = f"{watched.steps:,} {'step' if watched.steps == 1 else 'steps'}{ranks}"
    if not watched.examples:
        return f"{steps} recorded, and nothing could be judged"
    times = "once" if watched.examples == 1 else f"{watched.examples:,} times"
    return f"{steps}, {watched.judged} of {watched.in_force} invariants judged {times}"


def _of_comparison(found: Comparison) -> str:
    """Return how many findings came and went, and how many values changed."""
    gone, new = len(found.gone) + len(found.gone_violations), len(found.new) + len(found.new_violations)
    values = len(found.changes)
    changed = f"{values} {'value is' if values == 1 else 'values are'} not the same"
    return f"{gone} {'finding' if gone == 1 else 'findings'} gone, {new} new, {found.kept} in both; {changed}"


def _of_life(life: Life, verdict: str) -> str:
    """Return how many reports there are, and which of the newest decide."""
    number = len(life.stages)
    several = f"{number} {'report' if number == 1 else 'reports'}"
    deciding = [
        clean(stage.report.command) for stage in life.stages if stage.latest and stage.report.verdict == verdict
    ]
    return f"{several}; the newest are GO" if verdict == "GO" else f"{several}; {verdict} by {', '.join(deciding)}"


def _of_plan(report: Report) -> str | None:
    """Return memory against capacity, the step and its MFU."""
    memory, step = report.memory, report.step or {}
    if memory is None or memory.device_bytes is None:
        return f"memory is not known: {one_line(memory.reason or '')}" if memory is not None else None
    limit = f" of {format_bytes(memory.capacity_bytes)}" if memory.capacity_bytes is not None else ""
    said = f"{FITS_WORDS[memory.fits]}: {format_bytes(memory.device_bytes.mid)}{limit} per GPU"
    speed = [f"{format_seconds(step['seconds']['mid'])} a step"] if step.get("seconds") else []
    speed += [f"{step['mfu'] * 100:.0f} % MFU"] if step.get("mfu") else []
    if report.verdict == "NO-GO" and memory.fits == "yes" and report.notes:
        said = f"{one_line(report.notes[0])}; the GPU {said}"
    if speed and memory.fits == "no":
        return f"{said}; if it did: {', '.join(speed)}"
    return ", ".join([said, *speed])


def if_it_fitted(report: Report) -> str:
    """Return the remark behind times of a plan whose memory does not fit; empty where it does."""
    known = report.plan is not None and report.memory is not None
    return "if it fitted in memory" if known and report.memory and report.memory.fits == "no" else ""


def verdict_line(report: Report) -> str:
    """Return the verdict with the counts and the advice in one line."""
    said = advice(report)
    if report.associations is not None:
        return f"{report.verdict}  {one_line(report.associations.reason or associated(report.associations))}"
    if report.verification is not None:
        return f"{report.verdict}  {report.verification.status}"
    if report.life is not None:
        return f"{report.verdict}  {_of_life(report.life, report.verdict)}"
    if report.comparison is not None:
        return f"{report.verdict}  {_of_comparison(report.comparison)}"
    counted = report.plan is None and report.incident is None
    told = [text for text in (counts(report) if counted else "", said) if text]
    return f"{report.verdict}  {'; '.join(told)}".rstrip()


def place(location: Location) -> str:
    """Return a place as people write it: ``train.py:48:5``, ``notes.ipynb:cell 3:5:1`` or ``rank 3, step 120``."""
    parts = []
    if location.path is not None:
        numbers = [str(number) for number in (location.line, location.column) if number is not None]
        cell = [f"cell {location.cell}"] if location.cell is not None else []
        parts.append(":".join([clean(location.path), *cell, *numbers]))
    if location.rank is not None:
        parts.append(f"rank {location.rank}")
    if location.node is not None:
        parts.append(f"node {clean(location.node)}")
    if location.step is not None:
        parts.append(f"step {location.step}")
    if location.time is not None:
        parts.append(
            f"time {location.time:g} s" if not _DATES[0] <= location.time < _DATES[1] else _date(location.time)
        )
    return ", ".join(parts)


def named(finding: Finding) -> str:
    """Return what a finding is called: ``EFF002 dataloader-without-workers``, or its one name."""
    code, rule = clean(finding.code), clean(finding.rule)
    return code if code == rule else f"{code} {rule}"


def _date(seconds: float) -> str:
    import datetime

    at = datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc)
    return at.isoformat(sep=" ", timespec="seconds").replace("+00:00", " UTC")


def number(value: object) -> str:
    """Return a value as a person reads it: 12800 as ``12,800``, whole floats without the point."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return one_line(value) if isinstance(value, str) else clean(value)
    if isinstance(value, int):
        return (
            f"{value:,}" if abs(value) < 10**24 else f"{float(value):g}" if abs(value) < 10**300 else "a huge integer"
        )
    if value == int(value) if abs(value) < 1e15 else False:
        return f"{int(value):,}"
    return f"{value:.4g}"


def quantity(value: object, unit: str | None) -> str:
    """Return a value with its unit; bytes in binary units."""
    if value is None:
        return "not known"
    if unit in ("bytes", "B", "byte") and isinstance(value, (int, float)) and not isinstance(value, bool):
        return format_bytes(value)
    return number(value) + (f" {clean(unit)}" if unit else "")


def evidence_line(evidence: Evidence) -> str:
    """Return one line of evidence: what, value, arithmetic; measured and published values say so."""
    said = one_line(evidence.what)
    if evidence.value is not None or evidence.arithmetic is None:
        said += f": {quantity(evidence.value, evidence.unit)}"
    if evidence.arithmetic:
        said += (" = " if evidence.value is not None else ": ") + one_line(evidence.arithmetic)
    return said if evidence.source == "derived" else f"{said} ({evidence.source})"


def interval(value: Interval) -> str:
    """Return the ends of an interval of bytes: ``58.1 to 64.9 GiB``; empty when it is one point."""
    if value.low == value.high:
        return ""
    low, high = format_bytes(value.low), format_bytes(value.high)
    if low.split()[-1] == high.split()[-1]:
        low = low.split()[0]
    return f"{low} to {high}"


def capacity(memory: MemoryEstimate) -> str:
    """Return how the peak compares with the device."""
    if memory.capacity_bytes is None:
        return "no GPU was named, so it was not compared with a capacity"
    said = FITS_WORDS[memory.fits]
    if memory.p_fit is not None:
        said += f" (chance that it fits: {memory.p_fit * 100:.0f} %)"
    return said


def oom_line(oom: Oom) -> str:
    """Return the step and phase at which memory runs out."""
    return f"Will run out of memory at step {oom.step}, {PHASE_WORDS[oom.phase]}"


def part_name(field: str) -> str:
    """Return the name of a breakdown part as words."""
    return field.replace("_", " ")


def peak_of(memory: MemoryEstimate) -> str:
    """Return the peak, with the capacity where there is one: ``peak 61.2 GiB of 39.4 GiB``.

    What has to fit is everything on the device, context included; else, what the allocator hands out.
    """
    peak = memory.device_bytes or memory.peak_bytes
    if peak is None:
        return "peak not known"
    said = f"peak {format_bytes(peak.mid)}"
    return said if memory.capacity_bytes is None else f"{said} of {format_bytes(memory.capacity_bytes)}"


def quick_line(report: Report) -> str:
    """Return the whole report in one line: verdict, script, counts, peak, and the first finding that decides."""
    if report.plan is not None or report.incident is not None:
        return "  ".join(part for part in (report.verdict, subject(report), advice(report)) if part)
    if report.associations is not None or report.verification is not None or report.life is not None:
        return f"{report.verdict}  {subject(report)}  {verdict_line(report).removeprefix(report.verdict).strip()}"
    parts = [report.verdict, subject(report), counts(report)]
    if report.memory is not None:
        parts.append(peak_of(report.memory))
    deciding = [finding for finding in report.told if finding.decides]
    if deciding:
        at = deciding[0].location
        where = f"{clean(at.path)}:{at.line}" if at.path and at.line and at.cell is None else place(at)
        more = f" and {len(deciding) - 1} more" if len(deciding) > 1 else ""
        parts.append(f"({clean(deciding[0].code)} {where}{more})")
    return "  ".join(parts)
