"""Finds a log again whose name goes on with an empty file: it was renamed, or copied and then cut."""

from __future__ import annotations

import os

HEAD = 1024
"""First bytes of a file by which a copy of it is known."""


def moved_to(path: str, file_id: int, head: bytes, size: int) -> tuple[str, int] | None:
    """Return the path and the number on its disk of what stood behind a path before; None where it is not beside it any more.

    Args:
        path: Where it stood.
        file_id: Its number on its disk, which a renamed file keeps.
        head: Its first bytes, which a copy has as well.
        size: Bytes that were read of it: a copy has no fewer.
    """
    folder, name = os.path.split(path)
    stem = name.partition(".")[0]
    copy = None
    try:
        with os.scandir(folder or os.curdir) as entries:
            for entry in entries:
                if entry.name == name or not entry.is_file():
                    continue
                if entry.inode() == file_id:
                    return os.path.join(folder, entry.name), file_id
                if copy is None and head and entry.name.startswith(stem) and entry.stat().st_size >= size:
                    copy = _copy(os.path.join(folder, entry.name), head)
    except OSError:
        return None
    return copy


def paths_beside(path: str) -> dict[int, str]:
    """Return the paths in the folder of a file by their numbers on the disk."""
    folder = os.path.dirname(path)
    try:
        with os.scandir(folder or os.curdir) as entries:
            return {entry.inode(): os.path.join(folder, entry.name) for entry in entries}
    except OSError:
        return {}


def _copy(path: str, head: bytes) -> tuple[str, int] | None:
    with open(path, "rb") as stream:
        return (path, os.fstat(stream.fileno()).st_ino) if stream.read(len(head)) == head else None
