"""Logs of which a part is lost: cut off, damaged, or not to be read by who asks."""

from __future__ import annotations

from collections.abc import Iterable

from preflight.vocabulary.log import LogFile

_DAMAGED = ("cut off", "damaged")
# What is no log at all, or holds none, has lost nothing.
_NOTHING_IN_IT = ("not a file", "holds no file")


def lost_logs(files: Iterable[LogFile]) -> list[LogFile]:
    """Return the files of which something is lost, those that end early as well as those that could not be opened."""
    return [file for file in files if _lost(file)]


def _lost(file: LogFile) -> bool:
    problem = file.problem or ""
    if file.kind == "unreadable":
        return not any(word in problem for word in _NOTHING_IN_IT)
    return file.kind == "text" and any(word in problem for word in _DAMAGED)
