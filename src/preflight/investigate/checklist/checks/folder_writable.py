"""A folder can be written: a file is made, synced, read back and taken away again."""

from __future__ import annotations

import os
import tempfile

from preflight.investigate.checklist.checks import Seen

_BYTES = os.urandom(1 << 16)


def check(path: str) -> Seen:
    """Write and read 64 KiB."""
    if not os.path.isdir(path):
        return Seen("fail", f"{path}: is no folder")
    try:
        with tempfile.NamedTemporaryFile(dir=path, prefix=".preflight-") as file:
            file.write(_BYTES)
            file.flush()
            os.fsync(file.fileno())
            file.seek(0)
            same = file.read() == _BYTES
    except OSError as error:
        return Seen("fail", f"{path}: {error.strerror or error}")
    return Seen(
        "pass" if same else "fail",
        f"{path}: written, synced and read back" if same else f"{path}: other bytes came back",
    )
