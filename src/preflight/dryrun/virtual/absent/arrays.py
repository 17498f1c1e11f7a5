"""Arrays and tables of numbers that are missing: zeros of the type and rank that the code asks for, and consistent ids."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from preflight.dryrun.virtual.absent import callers, uses
from preflight.dryrun.virtual.absent.formats import ROWS

ELEMENTS = 16 << 20
"""Elements of an array whose size is not known."""
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
            assume(f"{os.fspath(fname)} is missing: {ROWS} rows of {width} columns of type {kind.name} took its place")
            return table(numpy, kind, width)

        return read

    numpy.loadtxt, numpy.genfromtxt = wrapped(numpy.loadtxt), wrapped(numpy.genfromtxt)


def table(numpy: Any, kind: Any, width: int) -> Any:
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
        marks = draw.randint(0, 2, (ROWS, width))
        marks[:, 0] = 1 + numpy.arange(ROWS)
        if width > 2:
            marks[:, -1] = numpy.arange(ROWS) % 7
        return marks.astype("U16")
    return draw.rand(ROWS, width).astype(kind)
