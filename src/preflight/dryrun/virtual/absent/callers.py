"""Who asks: the person's own code, or a library on behalf of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FrameType

_STDLIB = os.path.join(os.path.dirname(os.path.abspath(os.__file__)), "")
_OURS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_STANDINS = os.path.join(_OURS, "standins", "")


def _between(name: str) -> bool:
    """Whether a file only passes calls on: Python's own library and what redirects it."""
    if name.startswith("<frozen") or (name.startswith(_OURS) and not name.startswith(_STANDINS)):
        return True
    return name.startswith(_STDLIB) and f"{os.sep}site-packages{os.sep}" not in name


def asker() -> FrameType | None:
    """Return the frame that asked: the nearest one that is not of Python's library and not of this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _between(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def asks(owns: Callable[[str], bool]) -> bool:
    """Whether the person's own code asked, with nothing but Python's library between."""
    frame = asker()
    return frame is not None and owns(frame.f_code.co_filename)


def own_frame(owns: Callable[[str], bool]) -> FrameType | None:
    """Return the nearest frame of the person's own code, whatever library lies between; None while something is imported."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if "importlib" in name and not owns(name):
            return None
        if not _between(name) and owns(name):
            return frame
        frame = frame.f_back
    return None
