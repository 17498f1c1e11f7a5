"""/dev/shm has so much space free."""

from __future__ import annotations

import os

from preflight.investigate.checklist.checks import Seen

PLACE = "/dev/shm"


def check(least_gb: float, place: str = PLACE) -> Seen:
    """Ask the file system; gigabytes are 1e9 bytes."""
    if not os.path.isdir(place):
        return Seen("unknown", f"there is no {place}")
    of = os.statvfs(place)
    free, size = of.f_bavail * of.f_frsize / 1e9, of.f_blocks * of.f_frsize / 1e9
    return Seen(
        "pass" if free >= least_gb else "fail",
        f"{place}: {free:.2f} of {size:.2f} GB are free, {least_gb:g} are needed",
    )
