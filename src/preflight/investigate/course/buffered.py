"""Output that waits in a buffer while a program runs, and comes out behind the traceback that it ends with."""

from __future__ import annotations

from preflight.investigate.case.case import Case
from preflight.investigate.course.cells import of_a_cell
from preflight.investigate.course.step_order import numbers_of
from preflight.vocabulary.log import Frame, Raised

_KEPT_BACK = 8192 + 512
"""Bytes: a buffer of Python's full, and what a program says of its end."""


def waited(whole: Case, raised: Raised) -> bool:
    """Return whether what is told behind the death of a script may have been said before it.

    It is no more than a buffer full, and its steps go on where those before it left off; those of another start begin anew.
    A file in which a script had died before is one to which starts are appended.
    """
    file = whole.files.get(raised.hit.file)
    if file is None or file.size - raised.hit.offset > _KEPT_BACK:
        return False
    begins = raised.begins or raised.hit.line
    if any(one.hit.file == file.index and one.hit.line < begins and _died(one) for one in whole.raised):
        return False
    steps = whole.steps_in.get(file.index, [])
    told = [(step.line, number) for step, number in zip(steps, numbers_of(steps), strict=True) if number is not None]
    before = [number for line, number in told if line < begins]
    behind = [number for line, number in told if line > raised.hit.line]
    return not before or not behind or behind[0] >= before[-1]


def _died(raised: Raised) -> bool:
    return at_top(raised) and not raised.chained


def at_top(raised: Raised) -> bool:
    """Return whether an exception went through the whole of a script; a cell of a notebook ends alone."""
    first = of_the_script(raised)
    if of_a_cell(raised):
        return False
    return first is not None and first.function == "<module>" and first.path.endswith(".py") and bool(raised.exception)


def of_the_script(raised: Raised) -> Frame | None:
    """Return the outermost frame of the script itself."""
    return next((frame for frame in raised.frames if "runpy" not in frame.path), None)
