"""The lines that look like trouble and that nothing takes: no signature, and no traceback that was read whole."""

from __future__ import annotations

from collections.abc import Sequence

from preflight.vocabulary.log import Hit, Raised, Unknown, Who

Spans = dict[tuple[int, Who], list[tuple[int, int]]]
"""By file and writer, the lines of the header and of the exception of each traceback."""


def spans_of(raised: Sequence[Raised]) -> Spans:
    """Return where tracebacks stand."""
    found: Spans = {}
    for one in raised:
        if one.begins is not None:
            found.setdefault((one.hit.file, one.hit.who), []).append((one.begins, one.hit.line))
    return found


def said_of_raised(raised: Sequence[Raised]) -> set[tuple[int, str]]:
    """Return the last lines of tracebacks with their files: processes that fail alike print them into each other's, too."""
    return {(one.hit.file, f"{one.exception}: {one.message}") for one in raised if one.frames and one.message}


def inside(hit: Hit, spans: Spans) -> bool:
    """Return whether a line stands above the exception of one of the tracebacks of its writer, below its header."""
    return any(begins < hit.line < ends for begins, ends in spans.get((hit.file, hit.who), ()))


_WENT_ON = 40
"""Behind a line of trouble, so many lines in which nothing else fails are of a program that went on: what a launcher, a
tracker or a scheduler prints as a run ends is shorter, and an exception would have been read in them."""


_OFTEN = 10
_LONG = 1000


def any_trouble(unknown: Sequence[Unknown]) -> bool:
    """Return whether there are lines that look like trouble, and not only warn, that nothing explains and that ended nothing."""
    return any(not one.warning and one.behind < _WENT_ON and not _caught(one) for one in unknown)


def _caught(one: Unknown) -> bool:
    """Return whether a line came so often over so long a part of its file that what it tells of was caught each time.

    A program that says hardly anything else in between does nothing else: it only tries again.
    """
    file, line = one.last
    if one.first.file != file or one.count < _OFTEN:
        return False
    length = line - one.first.line
    return length >= _LONG and length - one.count >= _OFTEN


def unexplained(unknown: Sequence[Unknown], raised: Sequence[Raised]) -> list[Unknown]:
    """Return the templates that are left when those of exceptions are taken away, warnings last."""
    told, spans = {one.hit.place for one in raised}, spans_of(raised)
    left = [one for one in unknown if one.first.place not in told and not inside(one.first, spans)]
    return sorted(left, key=lambda one: one.warning)
