"""A file system has so much space free."""

from __future__ import annotations

import os
import shutil

from preflight.investigate.checklist.checks import Seen


def check(path: str, least_gb: float, least_inodes: int = 1000) -> Seen:
    """Ask the file system of a path (of the nearest folder above it that exists); gigabytes are 1e9 bytes."""
    at = os.path.abspath(path)
    while not os.path.exists(at) and os.path.dirname(at) != at:
        at = os.path.dirname(at)
    try:
        free = shutil.disk_usage(at).free / 1e9
        inodes = os.statvfs(at).f_favail if hasattr(os, "statvfs") else 0
        total = os.statvfs(at).f_files if hasattr(os, "statvfs") else 0
    except OSError as error:
        return Seen("unknown", f"{at}: {error.strerror or error}")
    if free < least_gb:
        return Seen("fail", f"{at}: {free:,.1f} GB are free, {least_gb:,g} are needed")
    if total and inodes < least_inodes:
        return Seen("fail", f"{at}: {inodes} files can still be made")
    return Seen("pass", f"{at}: {free:,.1f} GB are free")
