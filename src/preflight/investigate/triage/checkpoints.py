"""How old the last checkpoint is, and whether one is being written."""

from __future__ import annotations

import os
import time

import msgspec

ENDINGS = (".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".distcp", ".pkl", ".npz", ".metadata")
PARTIAL = (".tmp", ".part", ".partial", ".incomplete")
MOST_FILES = 200_000


class Checkpoints(msgspec.Struct, frozen=True, kw_only=True):
    """What lies in the folder.

    Attributes:
        folder: The folder.
        files: Files that look like parts of a checkpoint.
        newest: The one written last. age_seconds: How long ago. bytes: Of all that lie beside it.
        partial: Files that were begun and not finished.
        problem: Why nothing can be said.
    """

    folder: str
    files: int = 0
    newest: str | None = None
    age_seconds: float | None = None
    bytes: int | None = None
    partial: tuple[str, ...] = ()
    problem: str | None = None


def checkpoints(folder: str, now: float | None = None) -> Checkpoints:
    """Look into a folder, all the way down."""
    if not os.path.isdir(folder):
        return Checkpoints(folder=folder, problem="there is no such folder")
    files: list[tuple[float, int, str]] = []
    partial = []
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if name.endswith(PARTIAL):
                partial.append(path)
            elif name.endswith(ENDINGS) and len(files) < MOST_FILES:
                try:
                    told = os.stat(path)
                except OSError:
                    continue
                files.append((told.st_mtime, told.st_size, path))
    if not files:
        return Checkpoints(
            folder=folder, partial=tuple(sorted(partial)), problem="no file in it looks like a checkpoint"
        )
    written, _, newest = max(files)
    beside = [size for _, size, path in files if os.path.dirname(path) == os.path.dirname(newest)]
    return Checkpoints(
        folder=folder, files=len(files), newest=newest, bytes=sum(beside), partial=tuple(sorted(partial)),
        age_seconds=max((time.time() if now is None else now) - written, 0.0),
    )  # fmt: skip
