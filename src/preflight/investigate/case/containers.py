"""Containers that docker compose stopped itself, as the one that trained was done: their codes tell of no failure."""

from __future__ import annotations

from preflight.vocabulary.log import Ending, Reading

_STOPPED = (-15, -9)
"""What compose sends to containers that it stops: it asks, and kills who does not end."""


def without_stopped(reading: Reading) -> tuple[Ending, ...]:
    """Return the ends without those of containers that told no step and were stopped behind one that told steps and ended well.

    Who trains beside it and is killed then is no such one, nor is who is killed behind a container that only prepared something.
    """
    ends = [one for one in reading.endings if one.teller == "compose"]
    if not any(one.code in _STOPPED for one in ends):
        return reading.endings
    trained = {(step.file, step.who.node) for step in reading.steps}
    well: dict[int | None, int] = {}
    for one in ends:
        if one.code == 0 and (one.file, one.about.node) in trained:
            well[one.file] = min(one.line or 0, well.get(one.file, one.line or 0))
    return tuple(
        one
        for one in reading.endings
        if one.teller != "compose"
        or one.code not in _STOPPED
        or (one.file, one.about.node) in trained
        or one.file not in well
        or (one.line or 0) < well[one.file]
    )
