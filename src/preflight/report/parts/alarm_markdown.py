"""Alarms of a watched run as lines of Markdown."""

from __future__ import annotations

from collections.abc import Callable

from preflight.report.parts.alarm_text import MOST_OTHERS, details, groups, often, where
from preflight.report.parts.clean import clean
from preflight.report.parts.options import Options
from preflight.report.parts.snippet import snippet
from preflight.vocabulary.report import Report

Word = Callable[[str], str]


def alarm_lines(report: Report, options: Options, level: str, escape: Word, code: Word) -> list[str]:
    """Return a section with all alarms; nothing where there is none."""
    listed = groups(report.violations)
    if not listed:
        return []
    lines = [f"{level}# Violations ({len(listed)} {'alarm' if len(listed) == 1 else 'alarms'})", ""]
    for number, group in enumerate(listed, 1):
        root, others = group[0], group[1:]
        under = " " * len(f"{number}. ")
        told = [f"{code(where(root))} · {code(clean(root.relation))} ({root.severity}){often(root)}", ""]
        shown = snippet(root.location, options.sources)
        if shown:
            fence = "`" * max(3, max((line.text.count("`") + 1 for line in shown), default=0))
            told += [f"{fence}python", *(line.text for line in shown), fence, ""]
        told += [f"- {escape(name)}: {escape(text)}" for name, text in details(root)]
        if others:
            told.append(f"- {len(others)} more that began with it, often of the same cause")
            told += [f"  - {escape(one.message)} ({escape(where(one))})" for one in others[:MOST_OTHERS]]
            left = len(others) - MOST_OTHERS
            told += [f"  - and {left} others, in the JSON report"] if left > 0 else []
        lines += [f"{number}. **{escape(root.message)}**", *(under + line if line else "" for line in told), ""]
    return lines
