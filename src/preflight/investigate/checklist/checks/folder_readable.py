"""A folder or file is there and can be read."""

from __future__ import annotations

import os

from preflight.investigate.checklist.checks import Seen


def check(path: str) -> Seen:
    """Open the file, or the first file of the folder."""
    first = path
    try:
        if os.path.isdir(path):
            found = next((os.path.join(above, names[0]) for above, _, names in os.walk(path) if names), None)
            if found is None:
                return Seen("fail", f"{path}: holds no file")
            first = found
        with open(first, "rb") as file:
            some = len(file.read(1 << 16))
    except OSError as error:
        return Seen("fail", f"{first}: {error.strerror or error}")
    return Seen("pass" if some else "fail", f"{first}: {'can be read' if some else 'is empty'}")
