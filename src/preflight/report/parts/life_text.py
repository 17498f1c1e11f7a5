"""The life of a run, for a terminal."""

from __future__ import annotations

from preflight.report.parts.life_rows import figure_rows, left_out, stage_rows
from preflight.report.parts.paint import VERDICT_STYLES, Canvas
from preflight.vocabulary.report import Life


def life_section(canvas: Canvas, life: Life) -> None:
    """Add what was told when, and the figures that several reports tell."""
    rows = stage_rows(life)
    canvas.heading("THE LIFE OF THE RUN", "newest of its kind: *; times are UTC")
    width = max(len(command) for _, _, command, _ in rows)
    for when, verdict, command, what in rows:
        lead = f"{when}  {verdict:<7}  {command:<{width}}  "
        canvas.write(what, indent=2, first=lead, hang=4, first_style=VERDICT_STYLES.get(verdict))
    if left := left_out(life):
        canvas.write(f"older ones that are not shown: {left}", indent=2, style="dim")
    figures = figure_rows(life)
    if figures:
        canvas.heading("FORETOLD AND SEEN", "by the newest report of each kind")
        width = max(len(name) for name, _, _ in figures)
        for name, by, change in figures:
            said = "; ".join(by) + (f"; {change}" if change else "")
            canvas.write(said, indent=2, first=f"{name:<{width}}  ")
