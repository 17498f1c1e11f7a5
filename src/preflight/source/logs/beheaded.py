"""A file that begins in the middle of a traceback or of a launcher's table: cut off at its head, or turned over meanwhile."""

from __future__ import annotations

import re

from preflight.source.logs.pages import Line, Page
from preflight.source.logs.tracebacks import HEADER

_HEAD = 600
"""Bytes in which such a file has its first frame."""
_LONG_HEAD = 4 * _HEAD
"""Bytes in which the line stands that the first frame of a notebook points at."""
_FRAME = re.compile(rb'File "[^"\n]+", line \d+, in \S')
_FRAME_BEGINS = 'File "'
_SHOWN = re.compile(
    rb"^(?:File )?\[?[~/.\w][^\s\]]*?\.py(?:\]\S*)?(?::\d+,?)? in [\w.<>]+\([^\n]*\n(?:(?:\s*\d+ ?[^\n]*|-+> ?\d+ [^\n]*)\n)*?-+> ?\d+ ",
    re.MULTILINE,
)
"""A frame as notebooks show it, with the lines around that which was called, and an arrow at it."""
_BOXED = re.compile(
    r"^\s*(?:│|\|) \S.*?\.py:\d+\s+in\s+\S[^\n]*\n(?:\s*(?:│|\|)[^\n]*\n)*?\s*(?:│|\|) ❱ +\d+ ".encode(), re.MULTILINE
)
"""The same as rich shows it, in a box."""
_CHAIN = b"The above exception was the direct cause"


def beheaded(page: Page) -> tuple[Line, int] | None:
    """Return the frame with which a file begins, and where in its line it stands; None where the file begins otherwise."""
    found = _FRAME.search(page.data, 0, _HEAD) or next(
        (shown for one in (_SHOWN, _BOXED) if (shown := one.search(page.data, 0, _LONG_HEAD))), None
    )
    if found is None or found.start() > _HEAD:
        return None
    before = page.data[: found.start()]
    if HEADER.encode() in before or _CHAIN in before:
        return None
    line = page.line(*page.bounds(found.start()))
    return line, max(line.text.find(_FRAME_BEGINS) - 2, 0)  # those that are shown begin their line


_ENTRY = re.compile(rb"^\s*rank\s+: \d+ \(local_rank: \d+\)\s*$", re.MULTILINE)
_TITLES = (b"Failures:", b"(first observed failure)")


def beheaded_table(page: Page) -> Line | None:
    """Return the line of the first entry of a table of failures that has lost its title; None where the file begins otherwise."""
    found = _ENTRY.search(page.data, 0, _HEAD)
    if found is None or any(title in page.data[: found.start()] for title in _TITLES):
        return None
    return page.line(*page.bounds(found.end() - 1))
