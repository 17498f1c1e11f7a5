"""The newest file below a folder is not older than so many hours, and not empty."""

from __future__ import annotations

import os
import time

from preflight.investigate.checklist.checks import Seen


def check(path: str, hours: float, now: float | None = None) -> Seen:
    """Look at all files below the folder."""
    newest: tuple[float, int, str] | None = None
    for above, _, names in os.walk(path):
        for name in names:
            place = os.path.join(above, name)
            try:
                about = os.stat(place)
            except OSError:
                continue
            if newest is None or about.st_mtime > newest[0]:
                newest = (about.st_mtime, about.st_size, place)
    if newest is None:
        return Seen("fail", f"{path}: holds no file")
    age = ((time.time() if now is None else now) - newest[0]) / 3600.0
    if newest[1] == 0:
        return Seen("fail", f"{newest[2]}: is empty")
    return Seen(
        "pass" if age <= hours else "fail",
        f"{newest[2]}: {age:.1f} hours old, {newest[1]:,} bytes; {hours:g} hours are allowed",
    )
