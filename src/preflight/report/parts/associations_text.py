"""What goes together with failures, as text: with n, intervals and corrected chances."""

from __future__ import annotations

from preflight.report.parts.clean import one_line
from preflight.report.parts.paint import Canvas
from preflight.vocabulary.association import Association, Associations

MOST = 12
_TITLES = {"event": "EVENTS", "node": "NODES", "version": "VERSIONS", "template": "LINES OF LOGS"}


def associations_section(canvas: Canvas, found: Associations) -> None:
    """Add every family with its rows, the surest first."""
    canvas.write(headline(found), indent=2, style="bold")
    for of, title in _TITLES.items():
        rows = [one for one in found.associations if one.of == of]
        if rows:
            canvas.heading(title, f"{len(rows)} looked at")
            for one in rows[:MOST]:
                _row(canvas, one)
            if len(rows) > MOST:
                canvas.write(f"{len(rows) - MOST} more, none of them surer", indent=2, style="dim")
    if found.timing:
        canvas.heading("WHEN")
        for timing in found.timing:
            canvas.write(one_line(timing.text), indent=2, first="- ")
    if found.power is not None:
        canvas.heading("WHAT COULD BE SEEN")
        canvas.write(one_line(found.power), indent=2)


def headline(found: Associations) -> str:
    """The answer in one line."""
    if found.reason is not None:
        return one_line(found.reason)
    over = [f"{found.hours:,.4g} hours"] if found.hours is not None else []
    over += [f"{found.jobs:,} jobs"] if found.jobs is not None else []
    return one_line(
        f"{associated(found)} ({found.failures:,} failures in {' and '.join(over)}, {found.tests:,} comparisons)"
    )


def associated(found: Associations) -> str:
    """What goes together with failures, and at which times they come where that is not by chance."""
    names = list(dict.fromkeys(f"{one.of} {one.name}" for one in found.associations if one.associated))
    times = [one.text.partition(" (")[0] for one in found.timing if one.found]
    said = [f"associated with failures: {', '.join(names)}"] if names else []
    return one_line("; ".join([*said, *times]) or "nothing is associated with failures")


def _row(canvas: Canvas, one: Association) -> None:
    mark = "! " if one.associated else "  "
    lemon = f"; lemon with probability {one.lemon:.2f}" if one.lemon is not None else ""
    canvas.write(
        f"{one_line(one.text)} (q = {one.q:.2g}{lemon})",
        indent=2,
        first=mark,
        first_style="yellow" if one.associated else None,
    )
