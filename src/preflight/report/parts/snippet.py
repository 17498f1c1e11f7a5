"""The source lines around a place, made harmless, with the columns to point at."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from preflight.report.parts.clean import clean, display_width
from preflight.vocabulary.finding import Location


class SnippetLine(msgspec.Struct, frozen=True):
    """One source line: its number, its text, where the marked part begins and how wide it is (0: not marked)."""

    number: int
    text: str
    start: int = 0
    width: int = 0


def snippet(location: Location, sources: Mapping[str, str], *, around: int = 0) -> list[SnippetLine]:
    """Return the lines of a place with ``around`` lines on both sides; empty when the source is not at hand.

    Lines of a notebook cell are not lines of the notebook file, so places in cells have no snippet.
    """
    if location.path is None or location.line is None or location.cell is not None:
        return []
    text = sources.get(location.path)
    if text is None:
        return []
    lines = text.removesuffix("\n").split("\n")
    if not 1 <= location.line <= len(lines):
        return []
    first = max(1, location.line - around)
    last = min(len(lines), location.line + around)
    return [_line(number, lines[number - 1].rstrip("\r"), location) for number in range(first, last + 1)]


def _line(number: int, raw: str, location: Location) -> SnippetLine:
    shown = _shown(raw)
    if number != location.line:
        return SnippetLine(number, shown)
    column = location.column or len(raw) - len(raw.lstrip()) + 1
    begin = min(max(column, 1), len(raw) + 1) - 1
    same_line = location.end_line in (None, location.line)
    end = location.end_column - 1 if same_line and location.end_column else begin + 1
    if location.end_line is not None and location.end_line > number:
        end = len(raw.rstrip())
    start = display_width(_shown(raw[:begin]))
    width = display_width(_shown(raw[begin : max(end, begin + 1)]))
    return SnippetLine(number, shown, start, max(width, 1))


def _shown(text: str) -> str:
    return clean(text.replace("\t", "    "))
