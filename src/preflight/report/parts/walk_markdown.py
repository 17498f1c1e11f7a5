"""The way through the decision trees in Markdown."""

from __future__ import annotations

from collections.abc import Callable

from preflight.report.parts.incident_words import quote_place
from preflight.vocabulary.tree import Walk

Words = Callable[[str], str]


def walk_lines(walk: Walk, level: str, escape: Words, code: Words) -> list[str]:
    """Return the questions that were asked, what answered them, and where that led."""
    lines = [f"{level}# The way through the decision trees", ""]
    for number, step in enumerate(walk.steps, 1):
        place = f" {code(quote_place(step.quotes[0]))}" if step.quotes else ""
        lines.append(f"{number}. {escape(step.text)} **{escape(step.said)}**: {escape(step.because)}{place}")
    lines.append("")
    if walk.leaf is not None:
        lines += [f"**{escape(walk.leaf.text)}**", "", *(f"- {escape(text)}" for text in walk.leaf.next), ""]
    elif walk.open is not None:
        lines += [f"It cannot be told; to go on: {escape(walk.open)}", ""]
    return lines
