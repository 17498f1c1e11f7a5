"""Runs a program on the virtual GPU and writes down the live bytes after every operator.

Usage: python virtual_side.py RESULT.json GPU PROGRAM ARGUMENTS...
       python virtual_side.py --many FOLDER GPU PROGRAM::CASE...
Sizes are those asked for, before the allocator rounds them. GPU is a JSON object: ``name``, ``memory_bytes``,
``capability``, ``multiprocessors``.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from typing import Any

from preflight.dryrun.virtual.engine import gpu as virtual
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


def many(folder: str, card: str, *programs: str) -> None:
    """Run several programs one after the other, each in a fork, so that PyTorch is imported once.

    The n-th writes ``n.json`` into the folder, and what it says of errors into ``n.err``.
    """
    import torch._dynamo
    import torch.distributed.fsdp
    import torch.utils.data  # noqa: F401

    for number, program in enumerate(programs):
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        try:
            with open(os.path.join(folder, f"{number}.err"), "w", encoding="utf-8") as errors:
                os.dup2(errors.fileno(), 2)
            script, _, case = program.partition("::")
            main(os.path.join(folder, f"{number}.json"), card, script, case)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)


if __name__ == "__main__":
    if sys.argv[1] == "--many":
        many(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
