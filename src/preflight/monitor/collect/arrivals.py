"""One line for every Python process that the hook reached, so that a launcher can say why nothing was recorded."""

from __future__ import annotations

import contextlib
import json
import os
import platform

NAME = "arrivals.jsonl"


def arrived(folder: str, what: str, reason: str = "") -> None:
    """Add a line.

    Args:
        folder: The trace folder.
        what: ``armed`` when the interpreter starts, ``importing`` and ``failed`` around the import of torch, ``torch``
            when recording begins, ``refused`` when it cannot.
        reason: Why something failed or was refused.
    """
    line = {"pid": os.getpid(), "what": what, "reason": reason, "python": platform.python_version()}
    with contextlib.suppress(OSError):
        descriptor = os.open(os.path.join(folder, NAME), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(descriptor, json.dumps(line).encode() + b"\n")
        finally:
            os.close(descriptor)
