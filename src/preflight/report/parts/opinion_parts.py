"""What a language model said, as a section of every form; that it decides nothing stands in its title."""

from __future__ import annotations

from preflight.report.parts.clean import clean, one_line
from preflight.report.parts.compared import Part
from preflight.report.parts.incident_words import quote_place
from preflight.report.parts.paint import Canvas
from preflight.vocabulary.opinion import Claim, Opinion

TITLE = "What a model says"
NOTE = "a hypothesis: verdict and confidence are those without it"


def opinion_parts(opinion: Opinion | None) -> list[Part]:
    """Return it as a section of Markdown and of the page."""
    if opinion is None:
        return []
    return [Part(f"{TITLE} ({NOTE})", tuple(_sentences(opinion)), (), ())]


def opinion_section(canvas: Canvas, opinion: Opinion) -> None:
    """Add it for a terminal."""
    canvas.heading(TITLE.upper(), NOTE)
    for text in _sentences(opinion):
        canvas.write(text, indent=2, first="- ")


def _sentences(opinion: Opinion) -> list[str]:
    if opinion.hypothesis is None:
        return [f"{clean(opinion.model)} gave no hypothesis: {one_line(opinion.reason or 'no reason is known')}"]
    found = [f"{clean(opinion.model)}: {one_line(opinion.hypothesis)}", *(_claim(one) for one in opinion.claims)]
    return [*found, f"to see whether it is right: {one_line(opinion.check)}"] if opinion.check else found


def _claim(claim: Claim) -> str:
    if claim.quote is not None:
        return f"{one_line(claim.text)} [{quote_place(claim.quote)}: {one_line(claim.cited)}]"
    cited = f"cites {one_line(claim.cited)!r}, which is not in the evidence" if claim.cited else "cites no line"
    return f"{one_line(claim.text)} [not supported: {cited}]"
