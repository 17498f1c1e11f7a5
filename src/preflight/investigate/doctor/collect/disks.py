"""Where there is room: /dev/shm, the temporary folder, and the folder of checkpoints, which is written to."""

from __future__ import annotations

import os

from preflight.investigate.doctor.asking import NoAnswer, ask
from preflight.investigate.doctor.wanted import Wanted
from preflight.vocabulary.finding import Scalar

TRY = """\
import os, sys, time
folder = sys.argv[1]
began = time.perf_counter()
path = os.path.join(folder, f".preflight-{os.getpid()}-{os.environ.get('RANK', '')}")
with open(path, "xb") as file:
    try:
        file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
    finally:
        os.unlink(path)
room = os.statvfs(folder)
print(room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize, room.f_favail, time.perf_counter() - began)
"""


def collect(wanted: Wanted) -> dict[str, Scalar]:
    """Return room, and whether checkpoints can be written."""
    found: dict[str, Scalar] = {}
    for name, folder in (("shm", "/dev/shm"), ("tmp", os.environ.get("TMPDIR", "/tmp"))):
        try:
            room = os.statvfs(folder)
        except (OSError, AttributeError):
            continue
        found[f"{name}.total_bytes"] = room.f_blocks * room.f_frsize
        found[f"{name}.free_bytes"] = room.f_bavail * room.f_frsize
    if wanted.checkpoints:
        found.update(_checkpoints(wanted, wanted.checkpoints))
    return found


def _checkpoints(wanted: Wanted, folder: str) -> dict[str, Scalar]:
    """Write, sync and remove a MiB in a process of its own: a network file system that is gone blocks for ever."""
    found: dict[str, Scalar] = {"checkpoints.folder": os.path.abspath(folder), **_mount(os.path.abspath(folder))}
    try:
        free, total, inodes, seconds = ask([wanted.python, "-c", TRY, folder], wanted.seconds).split()
    except NoAnswer as error:
        return {**found, "checkpoints.writable": False, "checkpoints.problem": str(error)}
    found.update({"checkpoints.writable": True, "checkpoints.free_bytes": int(free), "checkpoints.total_bytes": int(total),
                  "checkpoints.free_inodes": int(inodes), "checkpoints.write_seconds": round(float(seconds), 4)})  # fmt: skip
    if wanted.checkpoint_bytes is not None:
        found["checkpoints.fits"] = int(free) // wanted.checkpoint_bytes
    return found


def _mount(folder: str) -> dict[str, Scalar]:
    """Return the kind and the source of the file system that a folder lies on: the longest mount point that holds it."""
    best: tuple[str, str, str] | None = None
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
            for line in file:
                source, point, kind, *_ = line.split(" ")
                point = point.replace("\\040", " ")
                inside = folder == point or folder.startswith(point.rstrip("/") + "/")
                if inside and (best is None or len(point) >= len(best[0])):
                    best = (point, kind, source)
    except OSError:
        return {}
    return (
        {"checkpoints.mount": best[0], "checkpoints.file_system": best[1], "checkpoints.source": best[2]}
        if best
        else {}
    )
