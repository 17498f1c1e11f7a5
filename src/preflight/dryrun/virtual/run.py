"""Runs the script on the virtual GPU and says what was seen."""

from __future__ import annotations

import builtins
import os
import random
import re
import signal
import sys
import traceback
from types import ModuleType
from typing import Any

import torch

from preflight.dryrun.virtual import changes, compiling, loaders, loops, phases, private, private_guard, saving, summary
from preflight.dryrun.virtual.absent import blame, inputs, missing, removed
from preflight.dryrun.virtual.distributed import data_parallel, ranks
from preflight.dryrun.virtual.engine import (
    attention,
    autocast,
    cuda,
    indexing,
    kernels,
    lazy,
    recurrent,
    refusals,
    statistics,
    storages,
    tensors,
    workspaces,
    wrappers,
)
from preflight.dryrun.virtual.engine.gpu import VirtualGpu
from preflight.dryrun.virtual.guard import guard, watchdog
from preflight.dryrun.virtual.memory import growth, history
from preflight.dryrun.virtual.memory.allocator import CachingAllocator
from preflight.dryrun.virtual.memory.ledger import Ledger
from preflight.dryrun.virtual.progress import Progress, Stop
from preflight.dryrun.virtual.watch import (
    arithmetic,
    convolutions,
    failures,
    halves,
    loading,
    losses,
    memory,
    modes,
    modules,
    precision,
    settings,
    updates,
)


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Run one script; return plain values for JSON."""
    _seed()
    private.register_backend(1)
    progress = Progress(job["root"], job["steps"])
    progress.last = job.get("last") or progress.last
    expandable = "expandable_segments:true" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "").lower()
    allocator = CachingAllocator(job.get("capacity"), expandable)
    events = history.History()
    gpu = VirtualGpu(Ledger(allocator, progress.where), progress, job.get("devices", 1))
    if job.get("snapshot"):
        gpu.ledger.history, allocator.watch = events, events.note
    tensors.install(gpu)
    indexing.install()
    storages.install(gpu)
    wrappers.install(gpu)
    wrappers.install_devices()
    gpu.rank = job.get("rank", 0)
    gpu.traffic.starts.append(lambda: allocator.lose(job.get("communicator") or 0))
    ranks.install(gpu, job.get("messages") or {})
    data_parallel.install(gpu)
    cuda.install(gpu, job["card"])
    autocast.install()
    attention.install(tuple(job["card"]["capability"]))
    recurrent.install()
    lazy.install()
    kernels.install(gpu)
    statistics.install()
    refusals.install()
    workspaces.install(tuple(job["card"]["capability"]))
    optimizers = phases.install(gpu)
    losses.install(gpu.watched)
    arithmetic.install(gpu.watched)
    halves.install(gpu.watched)
    convolutions.install(gpu.watched)
    settings.install(gpu.seen)
    products = precision.install(gpu.watched)
    memory.install(gpu.seen, gpu.ledger)
    updated = updates.install(gpu.watched)
    watched = modules.install(gpu.seen, updated)
    rounds = loops.Rounds(gpu)
    rounds.modes = modes.install(gpu.watched, updated)
    growth.install(gpu, rounds)
    loaders.install(rounds)
    given = inputs.install(gpu)
    feeds = loading.install(gpu.seen)
    saved = saving.install(progress.line)
    _prepare(job, progress, rounds)
    _skip_initialisation()
    overlay = guard.install(job["scratch"])
    missing.install(job, progress, rounds, overlay)
    made = changes.install(job.get("changes", ()), gpu, given)
    late = _end_when_told(progress)

    def learned() -> dict[str, Any]:
        more: dict[str, Any] = {"saves": [path for path, _ in saved.places], "refused": dict(overlay.refused)}
        more["assumptions"] = missing.lines(rounds)
        more |= {"seconds": dog.seconds, "torch": torch.__version__, "closed": job.get("closed", [])}
        more |= {
            "observations": gpu.seen.summary(),
            "reached": rounds.reached(),
            "loaders": feeds.rows,
            "precision": products.summary(),
            "inputs": given.first,
            "changed": [change.summary() for change in made],
            **watched.summary(),
        }
        return {**more, **summary.of(gpu, optimizers, rounds)}

    dog = watchdog.Watchdog(job, progress, lambda: gpu.operators, learned)
    dog.start()
    watchdog.follow_threads(gpu)
    outcome: dict[str, Any] = {"outcome": "ended"}
    with gpu:
        try:
            _execute(job["script"])
        except Stop:
            outcome = {"outcome": dog.reason or ("time is up" if late else "stopped")}
        except SystemExit as error:
            outcome = _left(error, progress)
        except BaseException as raised:
            # What a hook raises may have been lost on its way through C++.
            below = private_guard.raised_below() if isinstance(raised, SystemError) else None
            cause = blame.blamed(below or raised)
            blame.settle(cause)
            failures.note(cause, gpu.seen)
            outcome = {"outcome": "failed", **_failure(cause, progress)}
    untrained = blame.never_called() if outcome["outcome"] in ("ended", "exited") and not progress.step else None
    if untrained is not None:
        blame.settle(None)
        outcome = {"outcome": "failed", **_failure(ModuleNotFoundError(untrained), progress)}
    if job.get("snapshot"):
        history.write(job["snapshot"], events, gpu.ledger)
    dog.finish()
    return {**outcome, **learned()}


def _seed() -> None:
    """Let two dry runs of a script that sets no seed see the same numbers."""
    random.seed(0)
    torch.manual_seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)


def _end_when_told(progress: Progress) -> list[bool]:
    """End the run at SIGTERM, with what was learned so far; the list that is returned then holds an item."""
    told: list[bool] = []

    def end(*_: Any) -> None:
        told.append(True)
        progress.stopping = True
        raise Stop

    signal.signal(signal.SIGTERM, end)
    return told


def _prepare(job: dict[str, Any], progress: Progress, rounds: loops.Rounds) -> None:
    """Set up what a script finds: its arguments, its folder first on the path, loops that are watched."""
    folder = os.path.dirname(os.path.abspath(job["script"]))
    sys.argv = [job["script"], *job["arguments"]]
    sys.path[0] = folder
    setattr(builtins, compiling.HOOK, rounds)
    setattr(builtins, compiling.REACHED, rounds.blocks.add)
    sys.meta_path.insert(0, compiling.Finder(progress.owns))


_DRAWN = (
    "uniform_ normal_ trunc_normal_ kaiming_uniform_ kaiming_normal_ orthogonal_ xavier_uniform_ xavier_normal_ zeros_ ones_ "
    "constant_ eye_ dirac_ sparse_"
).split()
_SMALL = 1 << 17  # elements; a small network may run on the CPU for real, and then its numbers count


def _skip_initialisation() -> None:
    """Leave large weights as they are: nobody looks at their numbers, and drawing them is most of a large model's time."""

    def unless_large(draw: Any) -> Any:
        def drawn(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            return draw(tensor, *args, **kwargs) if tensor.numel() <= _SMALL else tensor

        return drawn

    for name in _DRAWN:
        if hasattr(torch.nn.init, name):
            setattr(torch.nn.init, name, unless_large(getattr(torch.nn.init, name)))


def _execute(script: str) -> None:
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


def _left(error: SystemExit, progress: Progress) -> dict[str, Any]:
    """Return how a script left: with the error of its own code, where a launcher such as Hydra printed it and left."""
    cause = blame.blamed(error.__context__) if isinstance(error.__context__, Exception) else None
    if cause is not None and error.code not in (None, 0) and not progress.step:
        seen = _failure(cause, progress)
        if seen["frames"]:
            return {"outcome": "failed", **seen}
    return {"outcome": "exited", "status": str(error.code)}


def _failure(error: BaseException, progress: Progress) -> dict[str, Any]:
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
