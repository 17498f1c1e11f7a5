"""Whether what a person named is there."""

from __future__ import annotations

import glob
import os

from preflight.errors import InputError, nearest

ALIKE = 0.7
"""The least likeness of file names: their endings are alike anyway."""


def there(path: str) -> None:
    """Make sure that a path or pattern that was given is there: a mistyped word must not look like a run without logs.

    Raises:
        InputError: It is not; the hint names the nearest that is.
    """
    place = os.path.expanduser(path)
    if path == "-" or os.path.lexists(place):
        return
    if glob.has_magic(place):
        if next(glob.iglob(place, recursive=True), None) is None:
            raise InputError(f"{path}: no file matches", "quote the pattern, or name the folder")
        return
    folder, name = os.path.split(place)
    try:
        beside = os.listdir(folder or ".")
    except OSError:
        raise InputError(f"{path}: no such file or folder", f"there is no folder {folder}") from None
    near = nearest(name, sorted(beside), ALIKE)
    raise InputError(f"{path}: no such file or folder", f"did you mean {os.path.join(folder, near)}?" if near else None)
