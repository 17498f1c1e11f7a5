"""Listings as tables: found by their files, narrowed by words, shown as text, JSON, CSV, Markdown or a page."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from preflight.cli import listings
from preflight.cli.parts.writing import Writing
from preflight.errors import UsageError, nearest
from preflight.listing import modules_beside

FORMATS = ("text", "json", "csv", "markdown", "html")
Row = dict[str, Any]
LEAST_ROOM = 14
"""Columns that a last cell of words needs to be broken into lines; with less it stands in one."""


def kinds() -> tuple[str, ...]:
    """What can be listed: the modules of ``preflight.cli.listings``."""
    return modules_beside(listings.__file__)


def _module(kind: str) -> ModuleType:
    return import_module(f"preflight.cli.listings.{kind}")


def rows(kind: str, words: Sequence[str] = (), catalog: tuple[str, ...] = ()) -> list[Row]:
    """The rows of a kind that all words fit.

    A word fits when it is the value of a column that groups (family, vendor ...), or part of the name, code or title.

    Args:
        kind: One of ``kinds()``.
        words: What narrows the list.
        catalog: Folders of the user's own catalog.

    Raises:
        UsageError: A word fits no row; the hint names the nearest value.
    """
    module = _module(kind)
    every: list[Row] = module.rows(catalog)
    found = every
    for word in words:
        wanted = word.casefold()
        exact = [row for row in found if any(wanted in _values(row, column) for column in module.EXACT)]
        part = [
            row for row in found if any(wanted in str(row.get(c, "")).casefold() for c in ("name", "code", "title"))
        ]
        kept = exact or part
        if not kept:
            known = {value for row in every for column in (*module.EXACT, "name") for value in _values(row, column)}
            near = nearest(wanted, sorted(known))
            raise UsageError(
                f"no {kind} for {word!r}", f"did you mean {near}?" if near else f"preflight list {kind} shows all"
            )
        found = kept
    return found


def _values(row: Row, column: str) -> list[str]:
    value = row.get(column)
    return [str(item).casefold() for item in (value if isinstance(value, list) else [value])]


def render_table(kind: str, found: list[Row], look: Writing) -> str:
    """The rows in the format that was asked for."""
    module = _module(kind)
    if look.format == "json":
        from preflight.report.parts.plain import encode

        return encode({"schema": "preflight.list/1", "kind": kind, kind: found})
    if look.format == "csv":
        return _csv(found, module.COLUMNS)
    if look.format in ("markdown", "html"):
        head = [f"| {' | '.join(_title(c) for c in module.COLUMNS)} |", f"|{'---|' * len(module.COLUMNS)}"]
        body = [
            f"| {' | '.join(_cell(row.get(c)).replace('|', chr(92) + '|') for c in module.COLUMNS)} |" for row in found
        ]
        table = "\n".join([*head, *body]) + "\n"
        if look.format == "markdown":
            return table
        from preflight.report.parts.sheet import sheet

        return sheet(f"# {kind}\n\n{len(found)} in all\n\n{table}")
    return _text(found, module.IN_TEXT, look.width)


def _csv(found: list[Row], columns: Sequence[str]) -> str:
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([row.get(column) for column in columns] for row in found)
    return out.getvalue()


def hanging(lead: str, text: str, width: int) -> list[str]:
    """The lines of a row whose last cell is words: those that do not fit go on below it, where there is room for words."""
    room = width - len(lead)
    if len(text) <= room or room < LEAST_ROOM:
        return [f"{lead}{text}".rstrip()]
    import textwrap

    first, *others = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)
    return [f"{lead}{first}", *(" " * len(lead) + other for other in others)]


def _text(found: list[Row], columns: Sequence[str], width: int) -> str:
    table = [[_title(column) for column in columns], *([_cell(row.get(column)) for column in columns] for row in found)]
    widths = [max(len(line[i]) for line in table) for i in range(len(columns))]
    right = [all(isinstance(row.get(column), (int, float, type(None))) for row in found) for column in columns]
    lines: list[str] = []
    for line in table:
        cells = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)]
        lead = "".join(f"{cell}  " for cell in cells[:-1])
        lines += [f"{lead}{cells[-1]}".rstrip()] if right[-1] else hanging(lead, line[-1], width)
    return "\n".join(lines) + f"\n{len(found)} in all\n"


def _title(column: str) -> str:
    for unit, shown in (("_gb_per_s", " (GB/s)"), ("_gib", " (GiB)"), ("_tflops", " (TFLOP/s)")):
        if column.endswith(unit):
            return column.removesuffix(unit).replace("_", " ") + shown
    return column.replace("_", " ")


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)
