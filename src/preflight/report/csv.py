"""Tables for spreadsheets and data frames: the findings, the memory, or the candidates of a plan."""

from __future__ import annotations

import math

from preflight.errors import UsageError
from preflight.report.parts.clean import clean_lines, one_line
from preflight.report.parts.options import Options
from preflight.report.parts.plan_table import PLAN_TITLES, compared_cells, plan_rows
from preflight.report.parts.results import results
from preflight.report.parts.sentences import evidence_line, subject
from preflight.vocabulary.memory import TOTALS
from preflight.vocabulary.report import Report

ENDINGS = (".csv",)
Cell = str | int | float | None
_FINDINGS = (
    "path", "line", "column", "cell", "rank", "node", "step", "time", "code", "rule", "severity", "confidence",
    "message", "evidence", "fix", "fix_is_safe",
)  # fmt: skip
_MEMORY = ("script", "kind", "name", "step", "low_bytes", "mid_bytes", "high_bytes", "reason")


def render(report: Report, options: Options) -> str:
    """Return one table, with a line of titles.

    Raises:
        UsageError: There is no such table.
    """
    import csv
    import io

    tables = {
        "findings": (_FINDINGS, _finding_rows),
        "memory": (_MEMORY, _memory_rows),
        "plan": (PLAN_TITLES, plan_rows),
        "compared": (("cluster", *PLAN_TITLES, "duration_seconds"), compared_cells),
    }
    shown = "compared" if report.plan is not None and report.plan.compared else "plan"
    table = options.table or (shown if report.plan is not None else "findings")
    if table not in tables:
        raise UsageError(f"unknown table {table!r}", f"one of {', '.join(tables)}")
    titles, rows = tables[table]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(titles)
    whole = [title.endswith("_bytes") for title in titles]
    writer.writerows([[_safe(cell, bytes_) for cell, bytes_ in zip(row, whole, strict=True)] for row in rows(report)])
    return out.getvalue()


def _finding_rows(report: Report) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for finding in results(report):
        at, fix = finding.location, finding.fix
        where: list[Cell] = [at.path, at.line, at.column, at.cell, at.rank, at.node, at.step, at.time]
        evidence = "; ".join(evidence_line(item) for item in finding.evidence)
        rule: list[Cell] = [finding.code, finding.rule, finding.severity, finding.confidence]
        change: list[Cell] = [fix.title if fix else None, None if fix is None else str(fix.safe).lower()]
        rows.append([*where, *rule, finding.message, evidence, *change])
    return rows


def _memory_rows(report: Report) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for script in report.scripts or (report,):
        memory, name = script.memory, subject(script)
        if memory is None:
            continue
        for field in TOTALS:
            value = getattr(memory, field)
            ends: list[Cell] = [None, None, None] if value is None else [value.low, value.mid, value.high]
            rows.append([name, "total", field.removesuffix("_bytes"), None, *ends, memory.reason])
        unnamed = None if memory.capacity_bytes is not None else "no GPU was named"
        rows.append([name, "capacity", "capacity", None, None, memory.capacity_bytes, None, unnamed])
        if memory.breakdown is not None:
            parts = memory.breakdown
            sizes = [(part, getattr(parts, part)) for part in parts.__struct_fields__]
            rows += [[name, "breakdown", part, None, None, size, None, None] for part, size in sizes]
        for point in memory.timeline:
            for kind in ("allocated", "reserved"):
                size = getattr(point, f"{kind}_bytes")
                rows.append([name, f"timeline_{kind}", point.phase, point.step, None, size, None, None])
    return rows


def _safe(cell: Cell, whole: bool) -> Cell:
    """Return a cell that a spreadsheet does not take for a formula; whole floats lose their point, and bytes their fraction."""
    if isinstance(cell, str):
        text = one_line(cell) if len(clean_lines(cell)) == 1 else "\n".join(clean_lines(cell))
        return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text
    if isinstance(cell, float) and (whole or cell.is_integer()):
        return round(cell) if math.isfinite(cell) else cell
    return cell
