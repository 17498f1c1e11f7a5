"""One recording of this process: everything put in place, and taken away again."""

from __future__ import annotations

import contextlib
import os
import platform
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from . import anew, places, reread
from .ahead import Ahead
from .anew import Anew
from .api import Api
from .backward import Backwards
from .budget import Budget
from .checkpoints import Checkpoints
from .chosen import command_line
from .clipping import Clipping
from .control import Control
from .digests import Digests
from .distributed import Distributed
from .divergences import Divergences
from .draws import Draws
from .dropouts import Dropouts
from .importing import Imports
from .leaves import Leaves
from .loaders import Loaders
from .memory import Memory
from .modes import Modes
from .modules import Forwards
from .naming import Names
from .optimizers import Optimizers
from .patching import Patches
from .pauses import Pauses
from .ratios import Ratios
from .recorder import Recorder, Sink
from .reentered import Reentered
from .reordered import Reordered
from .reread import Views
from .sampled import Sampled
from .scaling import Scaling
from .schedules import Schedules
from .sequences import Sequences
from .settings import Settings
from .signed import SignedLabels
from .sizes import Sizes
from .smoothed import SmoothedLabels
from .snapshot import Sight
from .staged import Staged
from .state import States
from .terms import Terms
from .untaken import Untaken
from .variables import Variables
from .verdicts import Verdicts
from .writer import Writer

VERSION = "1"


class Session:
    """The recorder with all its hooks, in a process that has torch."""

    def __init__(self, settings: Settings, imports: Imports | None = None) -> None:
        self.imports = imports or Imports()
        self._directory = ""
        with contextlib.suppress(OSError):  # it may have been removed
            self._directory = os.getcwd()  # the program may go elsewhere before it says again who it is
        self.recorder = recorder = Recorder(settings, self._open)
        places.foreign(recorder.torch.__file__)
        self.patches = Patches(recorder)
        self.names = Names()
        self.variables = Variables(recorder, self.names)
        digests = Digests(recorder)
        states = States(recorder, self.variables)
        optimizers = Optimizers(recorder, self.names, self.variables, states)
        sight = Sight(self.names, self.variables)
        sequences = Sequences(recorder.torch)
        self.forwards = Forwards(recorder, self.names, digests, sequences)
        self.forwards.leaves = Leaves(recorder, optimizers.holds, Ahead(recorder, self.variables).comes)
        self.forwards.draws = Draws(recorder)
        self.forwards.ratios = Ratios(recorder, sequences)
        views = Views(recorder)
        if recorder.wants(reread.NAME):
            self.forwards.views = views
            sequences.seen = views.heads
        terms = Terms(recorder, self.variables)
        schedules = Schedules(recorder, optimizers)
        modes = Modes(recorder, self.names)
        self.parts: list[Any] = [
            self.forwards,
            optimizers,
            Backwards(
                recorder,
                self.variables,
                states,
                optimizers.uncleared,
                optimizers.unstepped,
                optimizers.rewritten,
                sequences,
                self.forwards.draws,
                terms,
                self.forwards.ratios,
                Anew(recorder, self.variables) if recorder.wants(anew.NAME) else None,
            ),
            Clipping(recorder, self.variables),
            Scaling(recorder, optimizers),
            schedules,
            loaders := Loaders(recorder, digests, sight, self.forwards.repeated, reordered := Reordered(recorder)),
            reordered,
            modes,
            Sizes(recorder, modes),
            Dropouts(recorder, self.forwards),
            Divergences(recorder),
            SignedLabels(recorder),
            SmoothedLabels(recorder),
            views,
            Reentered(recorder, self.variables, self.forwards.graphed),
            Sampled(recorder),
            Verdicts(recorder, self.variables),
            terms,
            Checkpoints(recorder, self.names, self.variables, states),
        ]
        if settings.api or (settings.needs and any(need.startswith("api") for need in settings.needs)):
            self.parts.append(Api(recorder))
        if settings.control:
            self.parts.append(Control(recorder, sight, self._rank))
        self.distributed = Distributed(recorder, self.names, self.variables, states, self._begin)
        self.opened: Callable[[], None] = lambda: None
        memory = Memory(recorder)
        repeated = self.forwards.repeated
        recorder.at_boundary += [
            self.forwards.clear,
            repeated.boundary,
            terms.boundary,
            schedules.boundary,
            memory.boundary,
        ]
        pauses = self.pauses = Pauses(recorder, self.patches)
        pauses.clears.append(self.forwards.clear)
        pauses.forbids.append(lambda: self.forwards.thread.open)
        pauses.resumes += [self.variables.is_stale, optimizers.resume, loaders.resume, self.distributed.resume]
        recorder.at_boundary.append(Budget(recorder, repeated, pauses).boundary)
        recorder.at_turn.append(pauses.turn)
        untaken = Untaken(
            recorder, self.names.roots, lambda: {**schedules.resting(), **optimizers.resting()}, terms.lost
        )
        recorder.at_boundary.append(untaken.boundary)
        recorder.at_boundary.append(
            Staged(recorder, lambda: states.missing or terms.lost(), optimizers.resting).boundary
        )
        recorder.at_end += [pauses.end, self.forwards.clear, repeated.boundary, memory.end, untaken.end]

    def start(self) -> None:
        """Put the hooks in place; a part that cannot be is left out and named in the trace."""
        for part in self.parts:
            self._install(type(part).__name__, lambda part=part: part.install(self.patches))
        self._install("Distributed", lambda: self.distributed.install(self.patches, self.imports))
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.recorder.after_fork)

    def _install(self, name: str, install: Any) -> None:
        try:
            install()
        except Exception as error:
            self.recorder.trouble(f"install {name}", error)

    def stop(self, how: str = "exit", code: int | None = 0, error: str | None = None) -> None:
        """Write what waits, close the file, and take the hooks away."""
        try:
            self.recorder.close(how, code, error)
        finally:
            self.imports.forget()
            self.patches.undo()

    def _open(self, recorder: Recorder) -> Sink:
        word = "rank" if recorder.role == "trainer" else "worker"
        name = f"{word}-{self._rank():05d}.{os.getpid()}.trace"
        sink = Writer(os.path.join(recorder.settings.folder, name), recorder.settings.flush)
        sink.put("begin", self._first_row())
        sink.flush()  # a helper may be ended before the writer comes to it, and who it was is then still known
        self.opened()
        return sink

    def _begin(self) -> None:
        """Say again who this is: the rank is known now."""
        self.recorder.put("begin", self._first_row())

    def _rank(self) -> int:
        dist = self.recorder.torch.distributed
        if dist.is_available() and dist.is_initialized():
            return int(dist.get_rank())
        return _number("RANK", _number("SLURM_PROCID", 0) if "SLURM_NTASKS" in os.environ else 0)

    def _first_row(self) -> tuple[Any, ...]:
        recorder = self.recorder
        dist = recorder.torch.distributed
        ready = dist.is_available() and dist.is_initialized()
        world = int(dist.get_world_size()) if ready else _number("WORLD_SIZE", 1)
        host = ""
        with contextlib.suppress(OSError):
            host = socket.gethostname()
        return (
            recorder.number(),
            time.monotonic_ns(),
            time.time(),
            recorder.role,
            self._rank(),
            _number("LOCAL_RANK", 0),
            world,
            os.getpid(),
            _parent(),
            host,
            platform.python_version(),
            str(recorder.torch.__version__),
            command_line([str(word) for word in getattr(sys, "orig_argv", sys.argv)][:200]),
            self._directory,
            VERSION,
        )


def _parent() -> int:
    """The process that wanted this one: a server that forks for ``multiprocessing`` only carries that out."""
    process = sys.modules.get("multiprocessing.process")
    above = process.parent_process() if process is not None else None
    return int(above.pid) if above is not None and above.pid is not None else os.getppid()


def _number(variable: str, otherwise: int) -> int:
    try:
        return int(os.environ[variable])
    except (KeyError, ValueError):
        return otherwise
