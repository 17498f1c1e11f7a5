"""A file that begins in the middle of a traceback: cut off at its head, or turned over while one was printed."""

from __future__ import annotations

import re

from preflight.source.logs.pages import Line, Page
from preflight.source.logs.tracebacks import HEADER

_HEAD = 600
"""Bytes in which such a file has its first frame."""
_FRAME = re.compile(rb'File "[^"\n]+", line \d+, in \S')
_FRAME_BEGINS = 'File "'
_CHAIN = b"The above exception was the direct cause"


def beheaded(page: Page) -> tuple[Line, int] | None:
    """Return the frame with which a file begins, and where in its line it stands; None where the file begins otherwise."""
    found = _FRAME.search(page.data, 0, _HEAD)
    if found is None:
        return None
    before = page.data[: found.start()]
    if HEADER.encode() in before or _CHAIN in before:
        return None
    line = page.line(*page.bounds(found.start()))
    return line, max(line.text.find(_FRAME_BEGINS) - 2, 0)
