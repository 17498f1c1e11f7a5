"""Arrays and tables of numbers that are missing: zeros of the type and rank that the code asks for, and consistent ids."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from preflight.dryrun.virtual.absent import callers, uses
from preflight.dryrun.virtual.absent.formats import ROWS

ELEMENTS = 16 << 20
"""Elements of an array whose size is not known."""
_LARGEST = 1 << 22
"""Characters of a table that are read."""
_GROUP = 8
"""Rows that share their first number, as those of a user or a document do."""


def install(numpy: Any, owns: Callable[[str], bool], assume: Callable[[str], None]) -> None:
    """Meet missing files of numpy's readers."""
    _maps(numpy, assume)
    _tables(numpy, owns, assume)


def _maps(numpy: Any, assume: Callable[[str], None]) -> None:
    plain_map, plain_file = numpy.memmap, numpy.fromfile

    def zeros(file: Any, dtype: Any, shape: Any) -> Any:
        assume(f"{file} is missing: zeros of type {numpy.dtype(dtype).name} took its place")
        return numpy.zeros(ELEMENTS if shape is None else shape, dtype)

    class Memmap(plain_map):  # type: ignore[misc,valid-type]
        """A memory map; of a missing file, zeros."""

        def __new__(
            cls,
            filename: Any,
            dtype: Any = numpy.uint8,
            mode: str = "r+",
            offset: int = 0,
            shape: Any = None,
            order: str = "C",
        ) -> Any:
            try:
                return plain_map(filename, dtype, mode, offset, shape, order)
            except FileNotFoundError:
                return zeros(filename, dtype, shape)

    def fromfile(file: Any, dtype: Any = float, count: int = -1, *args: Any, **kwargs: Any) -> Any:
        try:
            if isinstance(file, (str, os.PathLike)):
                with open(
                    file, "rb"
                ) as there:  # which finds what was written or made up in this run, as numpy does not
                    return plain_file(there, dtype, count, *args, **kwargs)
            return plain_file(file, dtype, count, *args, **kwargs)
        except FileNotFoundError:
            return zeros(file, dtype, None if count < 0 else count)

    numpy.memmap, numpy.fromfile = Memmap, fromfile


def _tables(numpy: Any, owns: Callable[[str], bool], assume: Callable[[str], None]) -> None:
    def wrapped(plain: Any) -> Any:
        def read(fname: Any, dtype: Any = float, *args: Any, **kwargs: Any) -> Any:
            # A missing text is met here, not as a corpus.
            there = not isinstance(fname, (str, os.PathLike)) or os.path.lexists(fname)
            frame = None if there else callers.own_frame(owns)
            if frame is None:
                return plain(fname, dtype, *args, **kwargs)
            width = uses.columns(frame)
            if width is None:
                raise FileNotFoundError(2, "No such file or directory", os.fspath(fname))
            kind = numpy.dtype(dtype)
            ids = named_beside(os.fspath(fname)) if kind.kind in "US" else []
            made = table(numpy, kind, width, ids)
            assume(
                f"{os.fspath(fname)} is missing: {len(made)} rows of {width} columns of type {kind.name} took its place"
                + (", with the numbers that the file beside it names" if ids else "")
            )
            return made

        return read

    numpy.loadtxt, numpy.genfromtxt = wrapped(numpy.loadtxt), wrapped(numpy.genfromtxt)


def named_beside(path: str) -> list[str]:
    """Return the whole numbers in a table of the same stem that is there: it refers to the rows of the missing one."""
    stem, ending = os.path.splitext(path)
    folder = os.path.dirname(path) or "."
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        beside = os.path.join(folder, name)
        if os.path.splitext(beside)[0] != stem or beside == stem + ending:
            continue
        with open(beside, encoding="utf-8", errors="replace") as file:
            words = file.read(_LARGEST).split()
        if words and all(word.isdigit() for word in words):
            return list(dict.fromkeys(words))
    return []


def table(numpy: Any, kind: Any, width: int, ids: list[str] | None = None) -> Any:
    """Return a table of plausible numbers.

    Whole numbers are ids that fit each other: the first column counts groups, the others refer to them. A table of
    strings has a number of its own in each row, marks of 0 and 1, and one of seven classes at its end.
    """
    draw = numpy.random.RandomState(0)
    if kind.kind in "iu":
        made = draw.randint(1, ROWS // _GROUP + 1, (ROWS, width))
        made[:, 0] = 1 + numpy.arange(ROWS) // _GROUP
        return made.astype(kind)
    if kind.kind in "US":
        count = len(ids) if ids else ROWS
        marks = draw.randint(0, 2, (count, width))
        marks[:, 0] = [int(number) for number in ids] if ids else 1 + numpy.arange(count)
        if width > 2:
            marks[:, -1] = numpy.arange(count) % 7
        return marks.astype("U16")
    return draw.rand(ROWS, width).astype(kind)
