"""A file that ends with the beginning of a traceback: it is cut off, or is being written."""

from __future__ import annotations

from preflight.source.logs.pages import Line, Page
from preflight.source.logs.tracebacks import HEADER

_BEGINS = "Traceback (most"
_TAIL = 400


def cut_off(page: Page) -> Line | None:
    """Return the last line of the last block of a file where it is a traceback's header or a part of it; else None."""
    data = page.data
    tail = data[max(len(data) - _TAIL, 0) :].rstrip()
    text = tail[tail.rfind(b"\n") + 1 :].decode("utf-8", "replace")
    found = text.find(_BEGINS)
    if found < 0 or not f"{HEADER}:".startswith(text[found:]):
        return None
    return page.line(*page.bounds(data.rfind(_BEGINS.encode())))
