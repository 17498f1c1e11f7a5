"""Lines for a terminal: wrapping at a width, headings, bars, and colours that never carry meaning alone."""

from __future__ import annotations

import re

from preflight.report.parts.clean import display_width
from preflight.report.parts.options import VERBOSE, Options

_STYLES = {"bold": "1", "dim": "2", "red": "1;31", "yellow": "1;33", "green": "1;32", "blue": "1;34", "cyan": "36"}
VERDICT_STYLES = {"GO": "green", "NO-GO": "red", "UNKNOWN": "yellow"}
SEVERITY_STYLES = {"error": "red", "warning": "yellow", "info": "blue"}
_EIGHTHS = " ▏▎▍▌▋▊▉█"
# A number and its unit stay on one line.
_UNIT = re.compile(
    r"(?<=\d) (?=(?:%|[KMGT]iB|[MGT]?B(?:/s)?|[GT]FLOP/s|µs|ms|s|min|hours|days|years|GPUs?|kWh)(?![A-Za-z]))"
)
_GLUE = "\0"  # in no text that was made harmless


class Canvas:
    """Collects the lines of a terminal report. Everything it is given is plain, harmless text."""

    def __init__(self, options: Options) -> None:
        """Start empty."""
        self.width = options.width
        self.color = options.color
        self.symbols = options.symbols
        self.rest = options.rest
        self.lines: list[str] = []

    @property
    def rest_or_json(self) -> str:
        """What shows the rest, with the other way where the command has an option for it."""
        return f"{self.rest}, or the JSON" if self.rest == VERBOSE else self.rest

    def paint(self, text: str, style: str | None) -> str:
        """Return the text in a style, when colours are asked for."""
        if not self.color or style is None or not text:
            return text
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"

    def blank(self) -> None:
        """Add an empty line, unless the last one is empty or there is none."""
        if self.lines and self.lines[-1]:
            self.lines.append("")

    def heading(self, title: str, note: str = "", style: str | None = "bold") -> None:
        """Add the heading of a section, with a remark behind it that is wrapped under itself."""
        self.blank()
        self.write(note, first=f"{title}  " if note else title, first_style=style)

    def write(
        self,
        text: str,
        *,
        indent: int = 0,
        first: str = "",
        hang: int | None = None,
        style: str | None = None,
        first_style: str | None = None,
    ) -> None:
        """Add a text wrapped at the width.

        Args:
            text: What to write.
            indent: Spaces before every line.
            first: Stands before the first line; the others are indented to its width.
            hang: Indentation of the further lines behind ``indent``, where it is not the width of ``first``.
            style: Style of the text.
            first_style: Style of ``first``.
        """
        lead = display_width(first)
        if lead > (self.width - indent) * 2 // 3:
            text, first, lead, hang, first_style = f"{first}{text}", "", 0, min(hang or 4, 4), None
        under = lead if hang is None else hang
        room = self.width - indent
        wrapped = wrap(text, max(room - lead, 16), max(room - under, 16)) or [""]
        for index, line in enumerate(wrapped):
            before = self.paint(first, first_style) if index == 0 else " " * under
            self.lines.append((" " * indent + before + self.paint(line, style)).rstrip())

    def place(self, where: str, text: str, indent: int = 0, first: str = "", style: str | None = None) -> None:
        """Add a place and what is said of it, in one line or with the place in a line of its own.

        A path is never broken: in two pieces it can neither be clicked nor copied. One that is wider than the room stays whole.
        """
        lead = display_width(first)
        if lead + display_width(where) > self.width - indent:
            self.lines.append(" " * indent + first + self.paint(where + text[:1].strip(), style))
            self.write(text[1:].strip(), indent=indent + lead, style=style)
        else:
            self.write(f"{where}{text}", indent=indent, first=first, style=style)

    def bar(self, share: float, width: int) -> str:
        """Return a bar of a share between 0 and 1; anything above nothing shows at least its smallest mark."""
        share = min(max(share, 0.0), 1.0)
        if not self.symbols:
            filled = max(round(share * width), 1 if share > 0 else 0)
            return ("#" * filled).ljust(width, ".")
        eighths = max(round(share * width * 8), 1 if share > 0 else 0)
        whole, rest = divmod(eighths, 8)
        return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)

    def rule(self) -> None:
        """Add a line across the page."""
        self.lines.append(("─" if self.symbols else "-") * self.width)

    def text(self) -> str:
        """Return everything, ending in one line end."""
        return "\n".join(self.lines).rstrip("\n") + "\n"


def wrap(text: str, first_width: int, width: int) -> list[str]:
    """Break a line at spaces so that no part is wider than its room; words that are wider still are cut."""
    lines: list[str] = []
    current = ""
    room = first_width
    for word in _words(text, min(first_width, width)):
        candidate = f"{current} {word}" if current else word
        if display_width(candidate) <= room:
            current = candidate
            continue
        if current:
            lines.append(current)
            room = width
        while display_width(word) > room:
            head = _cut(word, room)
            lines.append(head)
            word = word[len(head) :]
            room = width
        current = word
    if current:
        lines.append(current)
    return lines


def _words(text: str, room: int) -> list[str]:
    """Return the words of a line, a number with its unit as one where both have room."""
    words: list[str] = []
    for piece in _UNIT.sub(_GLUE, text).split(" "):
        whole = piece.replace(_GLUE, " ")
        words += [whole] if display_width(whole) <= room else piece.split(_GLUE)
    return words


def _cut(word: str, room: int) -> str:
    """Return the longest beginning of a word that fits, cut behind a separator where its second half has one."""
    fits = room
    while display_width(word[:fits]) > room:
        fits -= 1
    fits = max(fits, 1)
    at = max(word.rfind(mark, 0, fits) for mark in "/\\,=._-")
    return word[: at + 1] if at + 1 > fits // 2 else word[:fits]
