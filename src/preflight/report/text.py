"""The report for a terminal, 80 columns and wider."""

from __future__ import annotations

from preflight.report.parts.alarm_text import alarm_section
from preflight.report.parts.associations_text import associations_section
from preflight.report.parts.clean import clean, one_line
from preflight.report.parts.comparison_text import comparison_section
from preflight.report.parts.finding_text import findings_section
from preflight.report.parts.incident_text import incident_section, walk_section, whys_section
from preflight.report.parts.life_text import life_section
from preflight.report.parts.live_text import live_sections
from preflight.report.parts.memory_text import memory_section
from preflight.report.parts.opinion_parts import opinion_section
from preflight.report.parts.options import Options
from preflight.report.parts.paint import VERDICT_STYLES, Canvas
from preflight.report.parts.plan_text import attention_line, closing_sections, layout_section, plan_sections
from preflight.report.parts.sections import fact_rows, holder_rows, input_line, step_rows, summary_rows
from preflight.report.parts.sentences import (
    advice,
    counts,
    findings_of,
    if_it_fitted,
    number,
    quick_line,
    subject,
    verdict_line,
)
from preflight.report.parts.verification_text import verification_section
from preflight.vocabulary.incident import Incident
from preflight.vocabulary.report import Efficiency, Life, Report

ENDINGS = (".txt", ".text", ".log")
TITLES = {"error": "CRITICAL ERRORS", "warning": "WARNINGS", "info": "NOTES"}

__all__ = ["ENDINGS", "quick_line", "render"]

_HOLDERS = 5
"""So many holders of memory are shown without --verbose."""


def render(report: Report, options: Options) -> str:
    """Return the terminal report."""
    canvas = Canvas(options)
    if report.life is not None:
        _life(canvas, report, report.life, options)
    elif len(report.scripts) > 1:
        _several(canvas, report, options)
    else:
        _block(canvas, report, options)
    canvas.blank()
    canvas.rule()
    canvas.write(
        verdict_line(report)[len(report.verdict) + 2 :],
        first=f"{report.verdict}  ",
        first_style=VERDICT_STYLES[report.verdict],
    )
    return canvas.text()


def _life(canvas: Canvas, report: Report, life: Life, options: Options) -> None:
    """Add what was told when, and with ``verbose`` the newest report of each kind."""
    canvas.write(subject(report), first=f"{report.verdict}  ", first_style=VERDICT_STYLES[report.verdict], style="bold")
    life_section(canvas, life)
    _notes(canvas, report)
    for stage in life.stages if options.verbose else ():
        if stage.latest:
            canvas.blank()
            canvas.rule()
            canvas.write(" ".join(clean(word) for word in stage.words), first="$ ", style="bold")
            _block(canvas, stage.report, options)


def _several(canvas: Canvas, report: Report, options: Options) -> None:
    """Add a block per script that has something to say, then the table of all of them."""
    for script in report.scripts:
        if script.told or script.verdict != "GO" or options.verbose:
            _block(canvas, script, options)
            canvas.blank()
            canvas.rule()
    canvas.heading("SUMMARY", f"{len(report.scripts)} scripts")
    rows = summary_rows(report)
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for verdict, errors, warnings, peak, path in rows:
        line = f"{verdict:<{widths[0]}}  {errors:>{widths[1]}}  {warnings:>{widths[2]}}  {peak:<25}  "
        style = VERDICT_STYLES.get(verdict)
        canvas.write(path, indent=2, first=line, hang=4, first_style=style)
    _notes(canvas, report)


def _block(canvas: Canvas, report: Report, options: Options) -> None:
    """Add one report, whatever its command was, without the verdict at its end."""
    canvas.write(subject(report), first=f"{report.verdict}  ", first_style=VERDICT_STYLES[report.verdict], style="bold")
    if report.incident is not None:
        _incident(canvas, report, report.incident, options)
    elif report.comparison is not None:
        comparison_section(canvas, report.comparison)
        _findings(canvas, report, options, "NEW ")
        _alarms(canvas, report, options)
    elif report.associations is not None:
        associations_section(canvas, report.associations)
    elif report.verification is not None:
        verification_section(canvas, report.verification)
    else:
        _script(canvas, report, options)
    if not _says_only_why(report):
        _notes(canvas, report)


def _says_only_why(report: Report) -> bool:
    """Whether a report is nothing but its five questions: its remarks belong to the whole incident."""
    return report.incident is not None and report.command.endswith(" why") and bool(report.incident.five_whys)


def _incident(canvas: Canvas, report: Report, incident: Incident, options: Options) -> None:
    if report.command.endswith(" why"):
        whys_section(canvas, incident)
        if not incident.five_whys:
            canvas.write(clean(incident.headline), indent=2)
    else:
        incident_section(canvas, incident, verbose=options.verbose)
        _alarms(canvas, report, options)
    if report.walk is not None and (options.verbose or report.command != "investigate"):
        walk_section(canvas, report.walk)
    if report.opinion is not None:
        opinion_section(canvas, report.opinion)


def _script(canvas: Canvas, report: Report, options: Options) -> None:
    """Add what a check, a plan or a look at a run says: findings first, then memory, step, money and facts."""
    plan, verbose = report.plan, options.verbose
    told = [text for text in ("" if plan is not None else counts(report), advice(report)) if text]
    if told:
        canvas.write("; ".join(told), indent=2)
    inputs = input_line(report)
    if inputs:
        canvas.write(inputs, indent=2, style="dim")
    _findings(canvas, report, options)
    _alarms(canvas, report, options)
    if report.pulses or report.measurements or report.differences:
        live_sections(canvas, report, verbose=verbose)
    if plan is not None:
        layout_section(canvas, plan)
    if report.memory is not None:
        memory_section(canvas, report.memory, verbose=verbose)
        _holders(canvas, report, verbose=verbose)
    if plan is not None:
        attention_line(canvas, plan)
    _step(canvas, report)
    if plan is not None:
        plan_sections(canvas, plan, verbose=verbose, remark=if_it_fitted(report))
    if report.efficiency is not None:
        _efficiency(canvas, report.efficiency, verbose=verbose)
    _recommendations(canvas, report)
    if plan is not None:
        closing_sections(canvas, plan, verbose=verbose)
    _facts(canvas, report, verbose=verbose)
    _not_evaluated(canvas, report, verbose=verbose)


def _findings(canvas: Canvas, report: Report, options: Options, prefix: str = "") -> None:
    for severity, title in TITLES.items():
        findings = findings_of(report, severity)
        if findings:
            findings_section(canvas, prefix + title, findings, options.sources)


def _alarms(canvas: Canvas, report: Report, options: Options) -> None:
    if report.violations:
        alarm_section(canvas, report, options.sources, verbose=options.verbose)


def _holders(canvas: Canvas, report: Report, *, verbose: bool) -> None:
    rows = holder_rows(report)
    shown = rows if verbose else rows[:_HOLDERS]
    if not shown:
        return
    left_out = len(rows) - len(shown)
    canvas.write(
        "largest holders at the peak" + (f" ({left_out} more with {canvas.rest})" if left_out else ""), indent=2
    )
    width = max(len(category) for _, category, _ in shown)
    for size, category, where in shown:
        canvas.write(where, indent=4, first=f"{size:>9}  {category:<{width}}  ")


def _step(canvas: Canvas, report: Report) -> None:
    rows = step_rows(report)
    if rows:
        canvas.heading("STEP", if_it_fitted(report))
        width = max(len(name) for name, _ in rows)
        for name, value in rows:
            canvas.write(value, indent=2, first=f"{name:<{width}}  ")


def _efficiency(canvas: Canvas, efficiency: Efficiency, *, verbose: bool) -> None:
    canvas.heading("EFFICIENCY", f"score {efficiency.score:.0f} %: {one_line(efficiency.band)}")
    parts = [part for part in efficiency.parts if verbose or part.score < 100]
    width = max((len(clean(part.name)) for part in parts), default=0)
    for part in parts:
        score = f"{clean(part.name):<{width}}  {part.score:>3.0f} %  {canvas.bar(part.score / 100, 10)}  "
        canvas.write(f"{one_line(part.reason)} (weight {number(part.weight)})", indent=2, first=score)


def _recommendations(canvas: Canvas, report: Report) -> None:
    if not report.recommendations:
        return
    canvas.heading("RECOMMENDATIONS")
    for index, item in enumerate(report.recommendations, 1):
        canvas.write(f"[{item.priority}] {one_line(item.change)}", indent=2, first=f"{index}. ")
        canvas.write(one_line(item.effect), indent=5, first="expected: ")
        if item.side_effect:
            canvas.write(one_line(item.side_effect), indent=5, first="costs: ")


def _facts(canvas: Canvas, report: Report, *, verbose: bool) -> None:
    rows = fact_rows(report, whole_paths=verbose)
    if not rows:
        return
    canvas.heading("WHAT WAS READ")
    shown = [row for row in rows if row.known or verbose]
    width = min(max((len(row.name) for row in shown), default=0), 32)
    for row in shown:
        canvas.write(row.value + (f"   ({row.origin})" if row.origin else ""), indent=2, first=f"{row.name:<{width}}  ")
    hidden = [row.name for row in rows if not row.known]
    if hidden and not verbose:
        canvas.write(", ".join(hidden) + f"   ({canvas.rest} says why)", indent=2, first=f"{'not known':<{width}}  ")


def _not_evaluated(canvas: Canvas, report: Report, *, verbose: bool) -> None:
    missing = report.not_evaluated
    if not missing:
        return
    rules = "rule was" if len(missing) == 1 else "rules were"
    canvas.heading("NOT EVALUATED", f"{len(missing)} {rules} not evaluated, for want of a fact")
    if verbose:
        for item in missing:
            canvas.write(one_line(item.reason), indent=2, first=f"{clean(item.code)} {clean(item.rule)}: ", hang=4)
        return
    reasons: dict[str, int] = {}
    for item in missing:
        reasons[item.reason] = reasons.get(item.reason, 0) + 1
    common = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    for reason, times in common[:3]:
        canvas.write(one_line(reason), indent=2, first=f"{times:>3} x ")
    if len(common) > 3:
        others = len(common) - 3
        canvas.write(f"and {others} other {'reason' if others == 1 else 'reasons'}", indent=2)


def _notes(canvas: Canvas, report: Report) -> None:
    reason = report.memory.reason if report.memory is not None else None
    # What stands under MEMORY, and above it where it decides, is not said once more.
    notes = [note for note in report.notes if reason is None or not note.endswith(reason)]
    if notes:
        canvas.heading("REMARKS")
        for note in notes:
            canvas.write(one_line(note), indent=2, first="- ")
