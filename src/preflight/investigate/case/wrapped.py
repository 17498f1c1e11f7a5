"""Ends that whatever ran a program told behind its output, where much more was said after them: something else ran, or it again."""

from __future__ import annotations

from collections.abc import Sequence

from preflight.source.logs.wrappers import WRAPPER
from preflight.vocabulary.log import Ending, LogFile

_MUCH = 40
"""So many lines are more than what a wrapper, a tracker and a batch system print as a job ends."""


def without_passed(endings: Sequence[Ending], files: Sequence[LogFile]) -> tuple[Ending, ...]:
    """Return the ends without those that wrappers told, of failed programs, long before the end of a file."""
    lines = {file.index: file.lines for file in files}
    return tuple(
        one
        for one in endings
        if one.teller != WRAPPER
        or not one.code
        or one.file is None
        or one.line is None
        or lines.get(one.file, 0) - one.line < _MUCH
    )
