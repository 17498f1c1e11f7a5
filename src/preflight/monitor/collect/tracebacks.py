"""Takes the recorder's own functions out of the traceback that a program prints when it fails."""

from __future__ import annotations

import os
from types import TracebackType

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def without_own(error: BaseException) -> None:
    """Leave in a traceback, and in those of what led to it, what would be there without the recorder.

    A function of torch that is watched is called by one of the recorder, which Python names between the two.
    """
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = first = _beyond(one.__traceback__)
        while first is not None:
            first.tb_next = _beyond(first.tb_next)
            first = first.tb_next
        waiting += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]


def _beyond(trace: TracebackType | None) -> TracebackType | None:
    """Return the first entry from here on that is not the recorder's."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_HERE):
        trace = trace.tb_next
    return trace
