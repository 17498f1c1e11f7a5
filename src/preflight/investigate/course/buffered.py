"""Output that waits in a buffer while a program runs, and comes out behind the traceback that it ends with."""

from __future__ import annotations

from preflight.investigate.case.case import Case
from preflight.investigate.course.cells import of_a_cell
from preflight.investigate.course.step_order import numbers_of
from preflight.vocabulary.log import Frame, Raised, StepLine

_KEPT_BACK = 8192 + 512
"""Bytes: a buffer of Python's full, and what a program says of its end."""
_FULL = 8192
"""Bytes: nothing comes out of a buffer that is not full, before its program ends."""


def waited(whole: Case, raised: Raised) -> bool:
    """Return whether what is told behind the death of a script may have been said before it.

    It is no more than a buffer full, and its steps go on where those before it left off; those of another start begin anew.
    Steps of the same kind in front of the death came out of a buffer only if that was full by then, and what a logger gives a time
    it does not keep back.
    A file in which a script had died before is one to which starts are appended.
    """
    file = whole.files.get(raised.hit.file)
    if file is None or not fits(whole, raised):
        return False
    begins = raised.begins or raised.hit.line
    if any(one.hit.file == file.index and one.hit.line < begins and _died(one) for one in whole.raised):
        return False
    steps = whole.steps_in.get(file.index, [])
    told = [(step, number) for step, number in zip(steps, numbers_of(steps), strict=True) if number is not None]
    before = [(step, number) for step, number in told if step.line < begins]
    behind = [(step, number) for step, number in told if step.line > raised.hit.line]
    if not behind:
        return True
    if _later(behind[0][0], raised) or (
        raised.hit.offset < _FULL and any(_alike(behind[0][0], one) for one, _ in before)
    ):
        return False
    return not before or behind[0][1] >= before[-1][1]


def fits(whole: Case, raised: Raised) -> bool:
    """Return whether all that stands behind what was raised may have waited in a buffer until then."""
    file = whole.files.get(raised.hit.file)
    return file is not None and file.size - raised.hit.offset <= _KEPT_BACK


def _later(step: StepLine, raised: Raised) -> bool:
    """Return whether a step has a time of its own that is later than all that was told before a death."""
    return step.time is not None and (raised.hit.time is None or step.time > raised.hit.time)


def _alike(step: StepLine, other: StepLine) -> bool:
    return step.values.keys() == other.values.keys()


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
