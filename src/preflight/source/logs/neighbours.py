"""What the lines beside one tell of its step: metrics that are listed below it, a progress bar that was drawn before it."""

from __future__ import annotations

import re

METRICS_BELOW = re.compile(r"^(?:\[(?:step|epoch|batch)=|\(min, max\) time across ranks \(ms\))")
"""A line whose metrics stand in the indented lines below it."""
_BAR_BEFORE = re.compile(rb"\|\s*(\d+)/\d+ \[[^\]\r\n]*\]?")
_NEAR = 400


def bar_before(data: bytes, start: int) -> int | None:
    """The step that a progress bar right before a line shows, for programs that print metrics without one."""
    low = max(start - _NEAR, 0)
    if data.rfind(b"|", low, start) < 0:
        return None
    found = _BAR_BEFORE.findall(data, low, start)
    return int(found[-1]) if found else None
