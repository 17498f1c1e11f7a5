"""Runs the script on the virtual GPU and says what was seen."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch

from preflight.dryrun.virtual import changes, executing, loaders, loops, phases, private, private_guard, saving, summary
from preflight.dryrun.virtual.absent import blame, inputs, missing
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
    regions,
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
    allocator = CachingAllocator(job.get("capacity"), expandable=None)
    events = history.History()
    gpu = VirtualGpu(Ledger(allocator, progress.where), progress, job.get("devices", 1))
    if job.get("snapshot"):
        gpu.ledger.history, allocator.watch = events, events.note
    _install_engine(gpu, job)
    watching = _Watching(gpu)
    executing.prepare(job, progress, watching.rounds)
    _skip_initialisation()
    overlay = guard.install(job["scratch"])
    missing.install(job, progress, watching.rounds, overlay)
    made = changes.install(job.get("changes", ()), gpu, watching.given)
    late = executing.end_when_told(progress)

    def learned() -> dict[str, Any]:
        return {
            "refused": dict(overlay.refused),
            "assumptions": missing.lines(watching.rounds) + gpu.supposed(),
            "seconds": dog.seconds,
            "torch": torch.__version__,
            "closed": job.get("closed", []),
            "changed": [change.summary() for change in made],
            **watching.summary(),
        }

    dog = watchdog.Watchdog(job, progress, lambda: gpu.operators, learned)
    dog.start()
    watchdog.follow_threads(gpu)
    with gpu:
        outcome = _executed(job["script"], gpu)
    if outcome["outcome"] == "stopped":
        outcome["outcome"] = dog.reason or ("time is up" if late else "stopped")
    untrained = blame.never_called() if outcome["outcome"] in ("ended", "exited") and not progress.step else None
    if untrained is not None:
        blame.settle(None)
        outcome = {"outcome": "failed", **executing.failure(ModuleNotFoundError(untrained), progress)}
    if job.get("snapshot"):
        history.write(job["snapshot"], events, gpu.ledger)
    dog.finish()
    return {**outcome, **learned()}


def _install_engine(gpu: VirtualGpu, job: dict[str, Any]) -> None:
    """Put the virtual GPU in the place of CUDA: tensors, ranks, ``torch.cuda``, operators that go another way on it."""
    capability = tuple(job["card"]["capability"])
    tensors.install(gpu)
    indexing.install()
    storages.install(gpu)
    wrappers.install(gpu)
    wrappers.install_devices()
    gpu.rank = job.get("rank", 0)
    gpu.traffic.starts.append(lambda: gpu.ledger.allocator.lose(job.get("communicator") or 0))
    ranks.install(gpu, job.get("messages") or {})
    data_parallel.install(gpu)
    cuda.install(gpu, job["card"])
    autocast.install()
    attention.install(capability)
    recurrent.install()
    lazy.install()
    regions.install(gpu.progress)
    kernels.install(gpu)
    statistics.install()
    refusals.install()
    workspaces.install(capability)


class _Watching:
    """Installs what notes what the script does; ``summary`` says what was seen."""

    def __init__(self, gpu: VirtualGpu) -> None:
        self.gpu = gpu
        self.optimizers = phases.install(gpu)
        losses.install(gpu.watched)
        arithmetic.install(gpu.watched)
        halves.install(gpu.watched)
        convolutions.install(gpu.watched)
        settings.install(gpu.seen)
        self.products = precision.install(gpu.watched)
        memory.install(gpu.seen, gpu.ledger)
        updated = updates.install(gpu.watched)
        self.modules = modules.install(gpu.seen, updated)
        self.rounds = loops.Rounds(gpu)
        self.rounds.modes = modes.install(gpu.watched, updated)
        growth.install(gpu, self.rounds)
        loaders.install(self.rounds)
        self.given = inputs.install(gpu)
        self.feeds = loading.install(gpu.seen)
        self.saved = saving.install(gpu.progress.line)

    def summary(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "saves": [path for path, _ in self.saved.places],
            "observations": self.gpu.seen.summary(),
            "reached": self.rounds.reached(),
            "loaders": self.feeds.rows,
            "precision": self.products.summary(),
            "inputs": self.given.first,
            **self.modules.summary(),
            **summary.of(self.gpu, self.optimizers, self.rounds),
        }


def _executed(script: str, gpu: VirtualGpu) -> dict[str, Any]:
    """Run the script; return how it ended."""
    progress = gpu.progress
    try:
        executing.execute(script)
    except loaders.NoData as nothing:
        return {"outcome": "no data", "stuck": nothing.line}
    except Stop:
        return {"outcome": "stopped"}
    except SystemExit as error:
        return executing.left(error, progress)
    except BaseException as raised:
        # What a hook raises may have been lost on its way through C++.
        below = private_guard.raised_below() if isinstance(raised, SystemError) else None
        cause = blame.blamed(below or raised)
        blame.settle(cause)
        failures.note(cause, gpu.seen)
        return {"outcome": "failed", **executing.failure(cause, progress)}
    return {"outcome": "ended"}


def _seed() -> None:
    """Let two dry runs of a script that sets no seed see the same numbers."""
    random.seed(0)
    torch.manual_seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)


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
