"""Gathers the lines that look like trouble and that nothing explains, as templates in which numbers and names are open."""

from __future__ import annotations

import re
from collections.abc import Callable

from preflight.source.logs.pages import Line
from preflight.vocabulary.log import Hit, Unknown

MOST = 500
"""Templates kept of one file; those seen less often than others that come later go."""
_LEVELS = ("ERROR", "CRITICAL", "FATAL", "SEVERE")
_TROUBLE = re.compile(
    r"^(?:[\w.]+(?:Error|Exception)\b|(?i:error|fatal(?: error)?|failed|panic|exception)\b[ :])|"
    r"\b(?:ERROR|FATAL|CRITICAL|Fatal error|FAILED)\b[: \]]|: error: |\bError:|\b[Ff]ailed to \w+"
)
_OPEN = re.compile(
    r"0x[0-9a-fA-F]+|\b[0-9a-f]{12,}\b|(?:/[\w.@+=-]+){2,}/?|\b\d+(?:[.:,]\d+)*(?:e[-+]?\d+)?[a-zA-Z]{0,3}\b|(?<=')[^']{1,200}(?=')"
)
_BLANK = re.compile(r"\s+")
_LONGEST = 300


class Residue:
    """The lines of one file that look like trouble."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, Hit, set[int]]] = {}

    def take(self, line: Line, hit: Callable[[], Hit]) -> None:
        """Count a line where it looks like trouble; ``hit`` makes it one where its template is new."""
        text = line.text[line.head.end :]
        if line.head.level not in _LEVELS and not _TROUBLE.search(text[:_LONGEST]):
            return
        template = template_of(text)
        count, first, ranks = self._found.get(template) or (0, None, set())
        if first is None:
            if len(self._found) >= MOST or not template:
                return
            first = hit()
        if line.head.who.rank is not None:
            ranks.add(line.head.who.rank)
        elif first.who.rank is not None:
            ranks.add(first.who.rank)
        self._found[template] = (count + 1, first, ranks)

    def templates(self) -> list[Unknown]:
        """Return the templates, the earliest first."""
        return [
            Unknown(template=template, count=count, ranks=tuple(sorted(ranks)), first=first)
            for template, (count, first, ranks) in self._found.items()
        ]


def template_of(text: str) -> str:
    """Return a text with its numbers, addresses, paths and quoted names open."""
    return _BLANK.sub(" ", _OPEN.sub("<*>", text[:_LONGEST])).strip()
