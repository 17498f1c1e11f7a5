"""An incident in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from preflight.report.parts.alarm_text import ranks
from preflight.report.parts.clean import clean_lines
from preflight.report.parts.incident_words import (
    ROLE_WORDS,
    category_in_words,
    culprit_in_words,
    first_failure_rows,
    loss_rows,
    moment_time,
    moment_who,
    percent,
    quote_place,
    suspect_name,
)
from preflight.vocabulary.incident import Incident, Moment, Reason

MOST_MOMENTS = 60
Words = Callable[[str], str]
Table = Callable[[tuple[str, ...], Sequence[tuple[str, ...]]], list[str]]


def _in_cell(code: str) -> str:
    """Return a code span for a table, whose cells end at every bar, within code too."""
    return code.replace("|", "\\|")


def incident_lines(incident: Incident, level: str, escape: Words, code: Words, table: Table) -> list[str]:
    """Return an incident as lines of Markdown; ``escape`` and ``code`` make text harmless, ``table`` draws one."""
    lines = [f"**{escape(incident.headline)}**", ""]
    lines += [escape(incident.reason), ""] if incident.reason else []
    rows = [
        ("state", incident.state),
        ("category", escape(category_in_words(incident))),
        ("confidence", percent(incident.confidence)),
        ("began with", escape(culprit_in_words(incident.culprit))),
    ]
    if incident.first_failure is not None:
        shown = first_failure_rows(incident.first_failure)
        rows += [
            (name, _in_cell(code(text)) if name in ("line", "text", "raised in") else escape(text))
            for name, text in shown
        ]
    lines += table(("what", "found"), rows)
    lines += _jobs(incident, level, escape, table)
    lines += _reasons("Why this cause", incident.reasons, level, escape, code)
    lines += _reasons("Why this rank", incident.culprit.reasons, level, escape, code)
    lines += _what_to_do(incident, level, escape, code)
    lines += _moments("Timeline", incident.timeline, level, escape, code, table)
    if len(incident.culprit.suspects) > 1:
        suspects = [(escape(suspect_name(one)), percent(one.probability)) for one in incident.culprit.suspects[:10]]
        lines += [f"{level}# Suspects", "", *table(("suspect", "probability"), suspects)]
    if incident.hypotheses:
        causes = [
            (
                escape(one.title),
                one.category,
                percent(one.probability),
                escape("; ".join(one.look_at or one.discriminated_by)),
            )
            for one in incident.hypotheses
        ]
        titles = ("it may be", "category", "probability", "what would tell")
        lines += [f"{level}# Possible causes", "", *table(titles, causes)]
    lines += _whys(incident, level, escape, code)
    lines += _moments("Only consequences", incident.consequences, level, escape, code, table)
    lines += _moments("Went wrong and was mended", incident.recovered, level, escape, code, table)
    lines += _reasons("Ruled out", incident.ruled_out, level, escape, code)
    lines += _end(incident, level, escape, code, table)
    return lines


def _jobs(incident: Incident, level: str, escape: Words, table: Table) -> list[str]:
    """Return the jobs, where the files of several were given."""
    if not incident.jobs:
        return []
    rows = [
        (escape(one.name) + (" (this report)" if one.shown else ""), one.state, one.category, escape(one.headline))
        for one in incident.jobs
    ]
    return [f"{level}# Jobs", "", *table(("job", "state", "category", "what happened"), rows)]


def _reasons(title: str, reasons: Sequence[Reason], level: str, escape: Words, code: Words) -> list[str]:
    if not reasons:
        return []
    lines = [f"{level}# {title}", ""]
    for reason in reasons:
        side = "for" if reason.weight > 0 else "against" if reason.weight < 0 else "neither"
        lines.append(f"- {side}: {escape(reason.text)}")
        lines += [f"  - {code(quote_place(quote))} {code(quote.text)}" for quote in reason.quotes]
    return [*lines, ""]


def _what_to_do(incident: Incident, level: str, escape: Words, code: Words) -> list[str]:
    lines: list[str] = []
    if incident.next:
        lines += [f"{level}# What to do", ""]
        for number, step in enumerate(incident.next, 1):
            command = f": {code(step.command)}" if step.command else ""
            cost = f" ({escape(step.cost)})" if step.cost else ""
            lines.append(f"{number}. {escape(step.text)}{cost}{command}")
        lines.append("")
    if incident.remedies:
        lines += [f"{level}# Remedies", ""]
        for one in incident.remedies:
            change = f" Change: {code(one.change)}." if one.change else ""
            proof = f" Fixed when: {escape(one.verification.rstrip(chr(46)))}." if one.verification else ""
            lines.append(f"- **{escape(one.title)}** ({one.kind}): {escape(one.why)}.{change}{proof}")
        lines.append("")
    return lines


def _moments(title: str, moments: Sequence[Moment], level: str, escape: Words, code: Words, table: Table) -> list[str]:
    if not moments:
        return []
    rows = [
        (
            escape(moment_time(one) or (f"step {one.step:,}" if one.step is not None else "")),
            escape(moment_who(one)),
            escape(ROLE_WORDS.get(one.role, one.role)),
            escape(one.text + (f" ({one.count} times)" if one.count > 1 else "")),
            _in_cell(code(quote_place(one.quote))) if one.quote is not None else "",
        )
        for one in moments[:MOST_MOMENTS]
    ]
    left = len(moments) - MOST_MOMENTS
    more = [f"{left} more are in the JSON report.", ""] if left > 0 else []
    return [f"{level}# {title}", "", *table(("time (UTC)", "who", "what it is", "text", "where"), rows), *more]


def _whys(incident: Incident, level: str, escape: Words, code: Words) -> list[str]:
    if not incident.five_whys:
        return []
    lines = [f"{level}# Five whys", ""]
    for number, why in enumerate(incident.five_whys, 1):
        answer = escape(why.answer or why.reason or "not known")
        places = " ".join(code(quote_place(quote)) for quote in why.quotes)
        lines.append(f"{number}. {escape(why.question)} *{why.known}*: {answer} {places}".rstrip())
    return [*lines, ""]


def _end(incident: Incident, level: str, escape: Words, code: Words, table: Table) -> list[str]:
    lines: list[str] = []
    if incident.series:
        lines += [f"{level}# What the steps show", ""]
        lines += [f"- {escape(one.kind)}: {escape(one.text)}" for one in incident.series] + [""]
    if incident.unknown:
        rows = [
            (
                str(one.count),
                escape(ranks(one.ranks)),
                _in_cell(code(one.template)),
                _in_cell(code(quote_place(one.quote))),
            )
            for one in incident.unknown
        ]
        lines += [f"{level}# Lines that nothing explains", "", *table(("times", "ranks", "line", "first at"), rows)]
    if incident.caught_by:
        lines += [f"{level}# What would have caught it before", ""]
        for one in incident.caught_by:
            lines.append(f"- {one.kind} {code(one.id)}: {escape(one.text)}")
            lines += ["", "  ```", *(f"  {line}" for line in clean_lines(one.draft)), "  ```", ""] if one.draft else []
        lines.append("")
    if incident.loss is not None and (cost := loss_rows(incident.loss)):
        lines += [
            f"{level}# What it cost",
            "",
            *table(("what", "value"), [(name, escape(text)) for name, text in cost]),
        ]
    if incident.clocks:
        clocks = [
            (escape(one.node), f"{one.ahead:+.3f} s", f"{one.error:.3f} s", str(one.markers)) for one in incident.clocks
        ]
        lines += [f"{level}# Clocks", "", *table(("node", "ahead by", "within", "markers"), clocks)]
    return lines
