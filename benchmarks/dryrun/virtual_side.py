"""Runs a program on the virtual GPU and writes down the live bytes after every operator.

Usage: python virtual_side.py RESULT.json GPU PROGRAM ARGUMENTS...
Sizes are those asked for, before the allocator rounds them. GPU is a JSON object: ``name``, ``memory_bytes``,
``capability``, ``multiprocessors``.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any

from preflight.dryrun.virtual import gpu as virtual
from preflight.dryrun.virtual.run import run

trace: list[tuple[str, int]] = []
_read = 0
_live = 0


def live_bytes(ledger: Any) -> int:
    """Return the bytes asked for that are live, from the events since the last call."""
    global _read, _live
    events = ledger.events
    for at in range(_read, len(events)):
        kind, _, size = events[at]
        _live += size if kind == "alloc" else -size
    _read = len(events)
    return _live


def main(result: str, card: str, script: str, *arguments: str) -> None:
    """Run a program; write trace and summary."""
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":0:0"  # a CPU has none of them
    account = virtual.VirtualGpu.note

    def note(gpu: Any, name: str, args: Any, result: Any) -> None:
        account(gpu, name, args, result)
        trace.append((name, live_bytes(gpu.ledger)))

    virtual.VirtualGpu.note = note  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as scratch:
        job = {
            "script": os.path.abspath(script),
            "root": os.path.dirname(os.path.abspath(script)),
            "arguments": list(arguments),
            "steps": 100,
            "card": json.loads(card),
            "capacity": None,
            "scratch": scratch,
            "result": result,
        }
        os.makedirs(os.path.join(scratch, "tmp"))
        tempfile.tempdir = os.path.join(scratch, "tmp")
        output = open(result, "w", encoding="utf-8")  # noqa: SIM115 - before the guard keeps files from being written
        seen = run(job)
        json.dump({"trace": trace, "seen": seen}, output)
        output.close()
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
