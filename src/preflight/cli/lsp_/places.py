"""Places: lines and columns of findings (characters, from 1) as those of the protocol (code units, from 0), and back."""

from __future__ import annotations

from typing import Any

from preflight.vocabulary.finding import Edit, Location


def span(document: Any, location: Location) -> Any:
    """Return the range that is underlined for a location; a line without a column is underlined from its first word on.

    Args:
        document: The text document of the protocol's library.
        location: A place in it.
    """
    lines = document.lines
    row = min(max((location.line or 1) - 1, 0), max(len(lines) - 1, 0))
    text = lines[row].rstrip("\r\n") if lines else ""
    indent = len(text) - len(text.lstrip())
    start = min((location.column - 1) if location.column else indent, len(text))
    end_row, end = row, len(text)
    if location.end_line is not None and location.end_column is not None:
        end_row = min(max(location.end_line - 1, row), len(lines) - 1)
        end = min(location.end_column - 1, len(lines[end_row].rstrip("\r\n")))
    if end_row > row:  # of a statement over many lines, the first one is enough
        end_row, end = row, len(text)
    return _range(document, row, start, end_row, max(end, start))


def replaced(document: Any, edit: Edit) -> Any:
    """Return the range that an edit replaces."""
    return _range(document, edit.line - 1, edit.column - 1, edit.end_line - 1, edit.end_column - 1)


def line_of(position: Any) -> int:
    """Return the line of a position, from 1."""
    return int(position.line) + 1


def _range(document: Any, row: int, start: int, end_row: int, end: int) -> Any:
    from lsprotocol.types import Position, Range

    inner = Range(start=Position(line=row, character=start), end=Position(line=end_row, character=end))
    return document.range_to_client_units(inner)
