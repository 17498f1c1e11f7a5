"""What the names of a frame stand for, read without a trace.

Before Python 3.13, asking the frame of a function for ``f_locals`` copies its variables into a dictionary that the frame
keeps: what was bound then stays alive until the function ends, and a dictionary that the program got from ``locals()``
is overwritten, for it is the same one.
So the variables are read where they lie: in 3.12 Python has a function for it, before that they are in memory behind the
frame, at places that did not change within a version and that are compared with what is known before anything is read.
Where they cannot be read in this way, a function has no variables.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import CellType, CodeType, FrameType
from typing import Any

_OPTIMIZED = 1
"""Flag of code whose variables lie in the frame: that of functions. Elsewhere the names are in a dictionary anyway."""
_WORD = 8

Read = Callable[[FrameType], "dict[str, Any]"]


def variables(frame: FrameType) -> dict[str, Any]:
    """Return the local names of a frame of this thread with what they stand for.

    Args:
        frame: A frame whose code runs, or is within a call.
    """
    if not frame.f_code.co_flags & _OPTIMIZED or sys.version_info >= (3, 13):
        return frame.f_locals
    return _reader()(frame)


def owner_of(frame: FrameType) -> Any:
    """Return what ``self`` stands for in a frame, or None.

    Args:
        frame: A frame whose code runs, or is within a call.
    """
    code = frame.f_code
    named = "self" in code.co_varnames or "self" in code.co_freevars or not code.co_flags & _OPTIMIZED
    return variables(frame).get("self") if named else None


def is_a(value: Any, kinds: Any) -> bool:
    """Return whether something is of a class, by its type alone.

    ``isinstance`` asks besides what the thing says of itself, which may run the person's code: a proxy makes what it stands
    for, or raises where that is gone or not there yet.

    Args:
        value: Anything that a name of the person's code stands for.
        kinds: A class, or a tuple of them.
    """
    return issubclass(type(value), kinds)


def attributes_of(value: Any) -> dict[str, Any]:
    """Return what an object holds by name, without asking the object; nothing where it has no such dictionary.

    Args:
        value: Anything that a name of the person's code stands for.
    """
    try:
        held: dict[str, Any] = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return held if is_a(held, dict) else {}


_readers: list[Read] = []


def _reader() -> Read:
    if not _readers:
        _readers.append(_made())
    return _readers[0]


def _made() -> Read:
    """Return what reads the variables of functions in this interpreter; nothing where nothing is known to."""
    usual = sys.implementation.name == "cpython" and not hasattr(sys, "getobjects") and sys.maxsize == (1 << 63) - 1
    with contextlib.suppress(Exception):
        made = {(3, 10): _of_3_10, (3, 11): _of_3_11, (3, 12): _of_3_12}.get(sys.version_info[:2]) if usual else None
        if made is not None:
            read = made()
            return read if _is_right(read) else _nothing
    return _nothing


def _nothing(frame: FrameType) -> dict[str, Any]:
    return {}


def _is_right(read: Read) -> bool:
    """Whether the variables of a function are read as they are: an argument, a local name, one shared with another."""
    shared = [3]

    def told(given: object, unbound: object = None) -> dict[str, Any]:
        own = given
        del unbound
        found = read(sys._getframe())
        return {**found, "same": found.get("own") is own and found.get("shared") is shared}

    mark = object()
    found = told(mark)
    return found.get("given") is mark and found.get("same") is True and "unbound" not in found


# -- what lies where


def _of_3_10() -> Read:
    """In 3.10 the variables follow the frame, and a pointer in it says where they end."""
    number, held = _memory()

    def read(frame: FrameType) -> dict[str, Any]:
        code, at = frame.f_code, id(frame)
        if (number(at + 4 * _WORD), number(at + 6 * _WORD)) != (id(code), id(frame.f_globals)):
            return {}
        names = [*code.co_varnames, *code.co_cellvars, *code.co_freevars]
        first = number(at + 8 * _WORD) - len(names) * _WORD
        if first != at + FrameType.__basicsize__ - _WORD:  # the size of a frame has room for one
            return {}
        return _bound(code, names, [number(first + place * _WORD) for place in range(len(names))], held)

    return read


def _of_3_11() -> Read:
    """In 3.11 the frame points to the interpreter's own, at whose end the variables are."""
    number, held = _memory()

    def read(frame: FrameType) -> dict[str, Any]:
        code = frame.f_code
        inner = number(id(frame) + 3 * _WORD)
        there = number(inner + _WORD), number(inner + 4 * _WORD), number(inner + 5 * _WORD)
        if there != (id(frame.f_globals), id(code), id(frame)):
            return {}
        names = [*code.co_varnames, *(name for name in code.co_cellvars if name not in code.co_varnames)]
        names += code.co_freevars
        first = inner + 9 * _WORD
        return _bound(code, names, [number(first + place * _WORD) for place in range(len(names))], held)

    return read


def _of_3_12() -> Read:
    """In 3.12 Python tells a variable of a frame by its name."""
    import ctypes

    tell = ctypes.pythonapi.PyFrame_GetVar
    tell.argtypes, tell.restype = [ctypes.py_object, ctypes.py_object], ctypes.py_object

    def read(frame: FrameType) -> dict[str, Any]:
        code = frame.f_code
        found: dict[str, Any] = {}
        for name in dict.fromkeys((*code.co_varnames, *code.co_cellvars, *code.co_freevars)):
            with contextlib.suppress(NameError):
                found[name] = tell(frame, name)
        return found

    return read


def _memory() -> tuple[Callable[[int], int], Callable[[int], Any]]:
    """Return what reads a word of memory, and what makes an object of its address."""
    import ctypes

    word = ctypes.c_size_t.from_address
    thing = ctypes.py_object

    def held(address: int) -> Any:
        return ctypes.cast(address, thing).value

    return lambda address: word(address).value, held


def _bound(code: CodeType, names: list[str], places: list[int], held: Callable[[int], Any]) -> dict[str, Any]:
    """Return the names that are bound, what is shared with other functions taken out of its cell."""
    shared = {*code.co_cellvars, *code.co_freevars}
    return dict(_each(shared, names, places, held))


def _each(
    shared: set[str], names: list[str], places: list[int], held: Callable[[int], Any]
) -> Iterator[tuple[str, Any]]:
    for name, address in zip(names, places, strict=True):
        if not address:
            continue
        value = held(address)
        if name in shared and type(value) is CellType:
            try:
                value = value.cell_contents
            except ValueError:
                continue
        yield name, value
