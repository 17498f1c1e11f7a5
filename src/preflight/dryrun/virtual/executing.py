"""Runs a script as Python would run it, and says how it ended."""

from __future__ import annotations

import builtins
import os
import re
import signal
import sys
import traceback
from types import ModuleType
from typing import Any

from preflight.dryrun.virtual import compiling, loops, private
from preflight.dryrun.virtual.absent import blame, removed
from preflight.dryrun.virtual.progress import Progress, Stop


def end_when_told(progress: Progress) -> list[bool]:
    """End the run at SIGTERM, with what was learned so far; the list that is returned then holds an item."""
    told: list[bool] = []

    def end(*_: Any) -> None:
        told.append(True)
        progress.stopping = True
        raise Stop

    signal.signal(signal.SIGTERM, end)
    return told


def prepare(job: dict[str, Any], progress: Progress, rounds: loops.Rounds) -> None:
    """Set up what a script finds: its arguments, its folder first on the path, loops that are watched."""
    folder = os.path.dirname(os.path.abspath(job["script"]))
    sys.argv = [job["script"], *job["arguments"]]
    sys.path[0] = folder
    setattr(builtins, compiling.HOOK, rounds)
    setattr(builtins, compiling.REACHED, rounds.blocks.add)
    sys.meta_path.insert(0, compiling.Finder(progress.owns))


def execute(script: str) -> None:
    """Run a script as the main program."""
    module = ModuleType("__main__")
    module.__file__ = script
    module.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = module
    folder = os.path.dirname(os.path.abspath(script))
    if os.path.basename(script) == "__main__.py" and os.path.isfile(os.path.join(folder, "__init__.py")):
        # The main module of a package is run as one: python -m PACKAGE, from the folder above.
        sys.path[0] = os.path.dirname(folder)
        module.__package__ = os.path.basename(folder)
    with open(script, "rb") as file:
        code = compiling.compiled(file.read(), script)
    exec(code, module.__dict__)


def left(error: SystemExit, progress: Progress) -> dict[str, Any]:
    """Return how a script left: with the error of its own code, where a launcher such as Hydra printed it and left."""
    cause = blame.blamed(error.__context__) if isinstance(error.__context__, Exception) else None
    if cause is not None and error.code not in (None, 0) and not progress.step:
        seen = failure(cause, progress)
        if seen["frames"]:
            return {"outcome": "failed", **seen}
    return {"outcome": "exited", "status": str(error.code)}


def failure(error: BaseException, progress: Progress) -> dict[str, Any]:
    """Return the error with the frames of the person's own code."""
    frames = [
        {"file": frame.filename, "line": frame.lineno, "function": frame.name, "text": frame.line or ""}
        for frame in traceback.extract_tb(error.__traceback__)
        if progress.owns(frame.filename)
    ]
    deepest = traceback.extract_tb(error.__traceback__)[-1:]
    if os.environ.get("PREFLIGHT_TRACEBACK"):
        traceback.print_exception(error)
    message = str(error).replace(f"{private.BACKEND}:", "cuda:")
    where = [f"{frame.filename}:{frame.lineno}" for frame in deepest]
    name = type(error).__name__
    if "Device Propagation" in message or "on the same device" in message:
        # What fake tensors say of two devices, in the words of real ones.
        devices = sorted(set(re.findall(r"(?:cuda:\d+|cpu)", message)))
        message = (
            f"Expected all tensors to be on the same device, but found at least two devices, {' and '.join(devices)}!"
        )
        name, where = "RuntimeError", []
    folder = os.path.dirname(str(frames[-1]["file"])) if frames else ""
    hint = removed.hint(name, message, folder)
    return {"error": name, "message": message, "frames": frames, "deepest": where, "hint": hint}
