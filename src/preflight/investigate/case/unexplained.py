"""The lines that look like trouble and that nothing takes: no signature, and no traceback that was read whole."""

from __future__ import annotations

from collections.abc import Sequence

from preflight.vocabulary.log import Hit, Raised, Unknown


def inside(hit: Hit, raised: Sequence[Raised]) -> bool:
    """Return whether a line stands above the exception of one of the tracebacks of its writer, below its header."""
    return any(
        one.begins is not None
        and one.hit.file == hit.file
        and one.begins < hit.line < one.hit.line
        and one.hit.who == hit.who
        for one in raised
    )


def unexplained(unknown: Sequence[Unknown], raised: Sequence[Raised]) -> list[Unknown]:
    """Return the templates that are left when those of exceptions are taken away, warnings last."""
    told = {one.hit.place for one in raised}
    left = [one for one in unknown if one.first.place not in told and not inside(one.first, raised)]
    return sorted(left, key=lambda one: one.warning)
