"""Alarms of a watched run as text: the root of each group with all that is known, the others in a line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from preflight.report.parts.clean import clean, one_line
from preflight.report.parts.finding_text import snippet_lines
from preflight.report.parts.paint import SEVERITY_STYLES, Canvas
from preflight.vocabulary.invariant import Violation
from preflight.vocabulary.report import Report

MOST_NAMES = 8
MOST_OTHERS = 8
MOST_RANKS = 8


def groups(violations: Sequence[Violation]) -> list[list[Violation]]:
    """Return the violations by group, in order."""
    found: dict[int, list[Violation]] = {}
    for one in violations:
        found.setdefault(one.group, []).append(one)
    return list(found.values())


def alarm_section(canvas: Canvas, report: Report, sources: Mapping[str, str], *, verbose: bool = False) -> None:
    """Add all alarms of a report."""
    listed = groups(report.violations)
    worst = {root.group: root.severity for root in report.alarms}
    style = "red" if "error" in worst.values() else "yellow"
    canvas.heading(f"VIOLATIONS ({len(listed)} {'alarm' if len(listed) == 1 else 'alarms'})", style=style)
    for number, group in enumerate(listed, 1):
        if number > 1:
            canvas.blank()
        alarm(canvas, f"{number}. ", group, sources, verbose=verbose)


def alarm(
    canvas: Canvas, first: str, group: Sequence[Violation], sources: Mapping[str, str], *, verbose: bool = False
) -> None:
    """Add one alarm."""
    root, others = group[0], group[1:]
    inner = 2 + len(first)
    canvas.write(one_line(root.message), indent=2, first=first, style="bold")
    canvas.write(where(root), indent=inner, style="cyan")
    canvas.write(f"{root.severity}: {clean(root.relation)}{often(root)}", indent=inner, style="cyan")
    snippet_lines(canvas, root.location, sources, inner, SEVERITY_STYLES[root.severity])
    for name, text in details(root, verbose=verbose):
        canvas.write(text, indent=inner, first=f"{name}: ", first_style="green" if name == "hint" else None)
    shown = others if verbose else others[:MOST_OTHERS]
    if others:
        canvas.write(f"{len(others)} more that began with it, often of the same cause", indent=inner)
    for other in shown:
        canvas.write(f"{one_line(other.message)} ({where(other)}, {clean(other.relation)})", indent=inner, first="- ")
    if len(others) > len(shown):
        canvas.write(f"and {len(others) - len(shown)} others ({canvas.rest_or_json})", indent=inner, first="- ")


def details(root: Violation, *, verbose: bool = False) -> list[tuple[str, str]]:
    """Return what is known of the root of a group, each with its name."""
    rows: list[tuple[str, str]] = []
    if root.variables:
        rows.append(("of", names(root.variables, len(root.variables) if verbose else MOST_NAMES)))
    for name, value in (("expected", root.expected), ("seen", root.seen)):
        if value is not None:
            rows.append((name, one_line(value if isinstance(value, str) else msgspec.json.encode(value).decode())))
    if root.neighbourhood:
        rows.append(("around", ", ".join(clean(line) for line in root.neighbourhood)))
    if root.cause:
        rows.append(("cause", f"usually {one_line(root.cause)}"))
    if root.fix is not None:
        rows.append(("hint", one_line(root.fix.title)))
    return rows


def where(violation: Violation) -> str:
    """Return the place in the code, the ranks, and since when."""
    at = violation.location
    parts = [f"{clean(at.path)}:{at.line}" if at.line is not None else clean(at.path)] if at.path is not None else []
    parts.append(ranks(violation.ranks))
    since = f"since step {violation.first_step}"
    if violation.first_iteration != violation.first_step:
        since += f" (iteration {violation.first_iteration})"
    return ", ".join([*(part for part in parts if part), since])


def often(violation: Violation) -> str:
    """Return how often it was seen, where that is more than once."""
    return f", {violation.count} times until step {violation.last_step}" if violation.count > 1 else ""


def ranks(numbers: Sequence[int]) -> str:
    """Return ranks in words: ``rank 3``, ``ranks 0 to 7``, ``ranks 0, 2``; many apart are counted."""
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    if len(numbers) > 2 and list(numbers) == list(range(numbers[0], numbers[0] + len(numbers))):
        return f"ranks {numbers[0]} to {numbers[-1]}"
    if len(numbers) > MOST_RANKS:
        shown = ", ".join(map(str, numbers[: MOST_RANKS - 1]))
        return f"ranks {shown} and {len(numbers) - MOST_RANKS + 1} more"
    return f"ranks {', '.join(map(str, numbers))}" if numbers else ""


def names(variables: Sequence[str], most: int) -> str:
    """Return names, the first ones where there are many."""
    shown = ", ".join(clean(name) for name in variables[:most])
    return shown + (f" and {len(variables) - most} more" if len(variables) > most else "")
