"""Where in the person's own code something was called from."""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType

_HERE = os.path.dirname(os.path.abspath(__file__))
_FOREIGN = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__))
_installed: list[str] = []
_known: dict[str, bool] = {}
_told: dict[str, str] = {}
_librarys: dict[str, bool] = {}


def foreign(module_file: str | None) -> None:
    """Count the folder of a library that does not lie in site-packages (a checkout of torch) as not the person's own."""
    if module_file:
        _installed.append(os.path.dirname(os.path.abspath(module_file)) + os.sep)
        _known.clear()
        _librarys.clear()


def is_users(path: str) -> bool:
    """Whether a file is the person's own: neither the recorder's, nor installed, nor of the standard library."""
    answer = _known.get(path)
    if answer is None:
        whole = os.path.abspath(path)
        answer = not (
            path.startswith("<")
            or whole.startswith(_HERE)
            or whole.startswith(_LIBRARY)
            or any(part in whole for part in _FOREIGN)
            or any(whole.startswith(folder) for folder in _installed)
        )
        _known[path] = answer
    return answer


def asked() -> list[str]:
    """The files of which it was asked whose they are: those that something was called from among them."""
    return list(_known)


def from_program(place: str | None) -> str:
    """A place as it reads from the folder of the program, so that it is the same wherever the program lies.

    What lies elsewhere is told by its last folder; no place at all is an empty text.
    """
    if not place:
        return ""
    told = _told.get(place)
    if told is None:
        main = getattr(sys.modules.get("__main__"), "__file__", None)
        folder = os.path.dirname(os.path.abspath(main)) if main and is_users(main) else os.getcwd()
        whole = os.path.abspath(place)
        inside = whole.startswith(folder.rstrip(os.sep) + os.sep)
        told = os.path.relpath(whole, folder) if inside else os.sep.join(whole.split(os.sep)[-2:])
        told = _told[place] = told.replace(os.sep, "/")
    return told


def user_frame(start: FrameType | None = None) -> FrameType | None:
    """The innermost frame of the person's own code, or None when there is none."""
    frame: FrameType | None = start or sys._getframe(1)
    known = _known
    while frame is not None:
        path = frame.f_code.co_filename
        users = known.get(path)
        if users or (users is None and is_users(path)):
            return frame
        frame = frame.f_back
    return None


def is_librarys(path: str) -> bool:
    """Whether a file belongs to a library that runs a training: installed, neither torch's nor the recorder's own."""
    answer = _librarys.get(path)
    if answer is None:
        whole = os.path.abspath(path)
        installed = any(part in whole for part in _FOREIGN) and not path.startswith("<")
        answer = installed and not whole.startswith(_HERE) and not any(whole.startswith(one) for one in _installed)
        _librarys[path] = answer
    return answer


def is_of_library(kind: type) -> bool:
    """Whether a class comes from an installed library other than torch."""
    path = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return isinstance(path, str) and is_librarys(path)


def by_library(frame: FrameType | None) -> bool:
    """Whether a library stands between this call and the person's own code."""
    while frame is not None:
        path = frame.f_code.co_filename
        if is_librarys(path):
            return True
        if is_users(path):
            return False
        frame = frame.f_back
    return False


def beyond_library(frame: FrameType | None) -> CodeType | None:
    """The person's own function that called the library that called the person's innermost function here, if one did."""
    own = user_frame(frame)
    while own is not None:
        back = own.f_back
        library = by_library(back)
        own = user_frame(back) if back is not None else None
        if library:
            return own.f_code if own is not None else None
    return None


def in_forward(frame: FrameType | None) -> bool:
    """Whether the person's innermost function here is a ``forward``, such as one that was called by its name."""
    own = user_frame(frame)
    return own is not None and own.f_code.co_name == "forward"


def here() -> str | None:
    """The place of the innermost call in the person's own code, as ``file:line``."""
    frame = user_frame(sys._getframe(1))
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else None
