"""A verification as text: the problem, each metric, what is still needed, what it rests on."""

from __future__ import annotations

from preflight.report.parts.clean import one_line
from preflight.report.parts.paint import Canvas
from preflight.vocabulary.verification import Compared, Fixed, Problem, Verification

STYLES: dict[Fixed, str] = {"FIXED": "green", "NOT_FIXED": "red", "REGRESSION": "red", "INCONCLUSIVE": "yellow"}
_WORDS = {"same": "not worse", "better": "better", "worse": "WORSE", "undecided": "undecided"}


def verification_section(canvas: Canvas, found: Verification) -> None:
    """Add everything that decided, with its numbers."""
    canvas.write(one_line(found.text), indent=2, first=f"{found.status}  ", first_style=STYLES[found.status])
    if found.problem is not None:
        _problem(canvas, found.problem)
    if found.metrics:
        canvas.heading("METRICS", "after against before")
        for one in found.metrics:
            _metric(canvas, one)
    if found.needed:
        canvas.heading("STILL NEEDED")
        for text in found.needed:
            canvas.write(one_line(text), indent=2, first="- ")
    if found.assumptions:
        canvas.heading("IT RESTS ON")
        for text in found.assumptions:
            canvas.write(one_line(text), indent=2, first="- ")


def _problem(canvas: Canvas, problem: Problem) -> None:
    canvas.heading("THE PROBLEM", f"{one_line(problem.what)}: {problem.verdict}")
    for name, side in (("before", problem.before), ("after", problem.after)):
        more = [f"{side.others} failed in another way"] if side.others else []
        more += [f"{side.left_out} not counted"] if side.left_out else []
        exposure = "" if problem.unit == "runs" else f", {side.exposure:,.6g} {problem.unit}"
        said = f"{side.failed} of {side.runs} runs failed{exposure}" + (f" ({', '.join(more)})" if more else "")
        canvas.write(said, indent=2, first=f"{name:<7} ")
    if problem.rate_after is not None and problem.verdict != "there":
        share = (
            f"{100 * problem.rate_after:.2g} % of runs"
            if problem.unit == "runs"
            else f"{problem.rate_after:.2g} in each of the {problem.unit}"
        )
        canvas.write(f"still possible at 95 %: {share}", indent=2, first="rate    ")
    p = "" if problem.p is None else f"p = {problem.p:.2g}; "
    canvas.write(f"{p}{problem.method}", indent=2, first="test    ")


def _metric(canvas: Canvas, one: Compared) -> None:
    style = "red" if one.verdict == "worse" else None
    canvas.write(one_line(one.text), indent=2, first=f"{_WORDS[one.verdict]:<10} ", first_style=style)
    told = f"{one.direction} is better" if one.direction != "equal" else "must not change"
    counts = f"{one.values[0]:,} and {one.values[1]:,} {one.of}; " if any(one.values) else ""
    canvas.write(f"{told} ({one.told_by}); {counts}{one.method}".rstrip("; "), indent=13, style="dim")
