"""Two reports side by side, for a terminal."""

from __future__ import annotations

from preflight.report.parts.comparison_rows import TITLES, ChangeRow, change_rows, gone_rows, sides
from preflight.report.parts.paint import VERDICT_STYLES, Canvas
from preflight.vocabulary.comparison import Comparison

_TONES = {"better": "green", "worse": "red"}
_WIDEST = 32


def comparison_section(canvas: Canvas, found: Comparison) -> None:
    """Add both sides, what changed, and what is gone; what is new is told as findings are."""
    for which, verdict, command, name in sides(found):
        canvas.write(f"{name}   ({command})", indent=2, first=f"{which:<6}  {verdict:<7}  ",
                     first_style=VERDICT_STYLES.get(verdict))  # fmt: skip
    for aspect, title in TITLES.items():
        rows = change_rows(found, aspect)
        if rows:
            canvas.heading(title.upper())
            _table(canvas, rows)
        elif aspect in found.shared:
            canvas.heading(title.upper(), "the same")
    gone = gone_rows(found)
    if gone:
        canvas.heading(f"GONE ({len(gone)})", style="green")
        for rule, where, message in gone:
            canvas.write(message, indent=2, first="- ")
            canvas.write(f"{where}  {rule}" if where else rule, indent=4, style="dim")


def _table(canvas: Canvas, rows: list[ChangeRow]) -> None:
    width = min(max(len(row.name) for row in rows), _WIDEST)
    first = min(max(len(row.before) for row in rows), _WIDEST)
    last = min(max(len(row.after) for row in rows), _WIDEST)
    arrow = "→" if canvas.symbols else "->"
    for row in rows:
        said = "  ".join(part for part in (row.change, row.tone) if part)
        lead = f"{row.name:<{width}}  {row.before:>{first}} {arrow} {row.after:<{last}}  "
        canvas.write(said, indent=2, first=lead, style=_TONES.get(row.tone))
