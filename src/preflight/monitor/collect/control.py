"""Asked from outside, acts at the end of an iteration that all ranks agree on: a checkpoint, or the end of the program.

The watching process and the ranks share a small file in memory. A rank writes there how many iterations it has
ended, and sees in the same moment whether something is asked. If so it waits a moment for the iteration at which
to act: the watching process names one that no rank has ended. So all ranks act at the same one, also where they are
an iteration apart, and none of them waits inside a collective operation for another that has stopped.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import struct
import sys
import time
from typing import Any

from .entry import Entry
from .patching import Patches
from .recorder import Recorder
from .snapshot import Sight, random_states, save

MAGIC = b"PFC1"
CELLS = 64
CELL = 32
RANKS = 2046
SIZE = CELLS + RANKS * CELL
HEAD = struct.Struct("<4sIqqq")
"""Magic, what is asked, the number of the request, the iteration to act at (-1: not known), the request it is for."""
OWN = struct.Struct("<qIqq")
"""Of a rank: iterations ended, its process, the request that it waits for (negative: gave up), the one it has done."""

CHECKPOINT, STOP = 1, 2
PATIENCE = 5.0
"""Seconds that a rank waits for the iteration to act at."""
_ENDINGS = frozenset({"step", "scheduler.step", "scaler.update", "zero_grad"})


class Control:
    """One rank's side of the file."""

    def __init__(self, recorder: Recorder, sight: Sight, rank: Any) -> None:
        """Take the recorder, what is in sight to be saved, and a function that gives the rank."""
        self.recorder = recorder
        self.sight = sight
        self._rank = rank
        self._memory: mmap.mmap | None = None
        self._seen = 0  # the last request that was answered in some way
        self._armed = 0  # the request whose iteration is awaited
        self._kind = 0
        self._target = -1
        self._random: dict[str, Any] | None = None  # after the last step, before the next batch is drawn

    def install(self, patches: Patches) -> None:
        """Open the file that the settings name; where it is not there nothing is ever asked."""
        path = self.recorder.settings.control
        if not path or not os.path.isfile(path):
            return
        with open(path, "r+b") as stream:
            self._memory = mmap.mmap(stream.fileno(), SIZE)
        if self._memory[:4] != MAGIC:
            self._memory = None
            return
        self.sight.wanted = True
        self.recorder.at_turn.append(self.boundary)
        self.recorder.at_end.append(self.end)

    def boundary(self) -> None:
        """An iteration has ended."""
        memory = self._memory
        if memory is None:
            return
        ended = self.recorder.iteration + 1
        at = CELLS + self._rank() % RANKS * CELL
        OWN.pack_into(memory, at, ended, os.getpid(), self._armed, OWN.unpack_from(memory, at)[3])
        _, kind, request, target, of = HEAD.unpack_from(memory, 0)
        if kind and request > self._seen:
            self._seen = request
            self._begin(memory, at, ended, kind, request)
        if self._armed and self._target < 0 and of == self._armed:
            self._target = target
        if self._armed and self._target >= 0 and ended >= self._target:
            done = self._armed
            if self._kind == STOP and ended == self._target:
                OWN.pack_into(memory, at, ended, os.getpid(), 0, done)  # what ends the program may not come back here
            if ended == self._target:
                self._act()
            OWN.pack_into(memory, at, ended, os.getpid(), 0, done)
            self._disarm()

    def end(self) -> None:
        """The process ends: nobody waits for it."""
        if self._memory is not None:
            at = CELLS + self._rank() % RANKS * CELL
            _, pid, _, done = OWN.unpack_from(self._memory, at)
            if pid == os.getpid():
                OWN.pack_into(self._memory, at, self.recorder.iteration, 0, 0, done)

    def _begin(self, memory: mmap.mmap, at: int, ended: int, kind: int, request: int) -> None:
        """Wait here until the iteration to act at is known."""
        OWN.pack_into(memory, at, ended, os.getpid(), request, 0)
        began = time.monotonic()
        while time.monotonic() - began < PATIENCE:
            _, now, current, target, of = HEAD.unpack_from(memory, 0)
            if now == 0 or current != request:
                break  # it is not asked any more
            if of == request:
                self._armed, self._kind, self._target = request, kind, target
                self.recorder.on_leave = self._left
                break
            time.sleep(0.002)
        else:
            OWN.pack_into(memory, at, ended, os.getpid(), -request, 0)
        # Waiting is not the cost of recording.
        self.recorder.spent -= int((time.monotonic() - began) * 1e9)

    def _left(self, entry: Entry) -> None:
        """After what may be the last event of an iteration, keep the state of the random generators."""
        if entry.name in _ENDINGS:
            self._random = random_states()

    def _disarm(self) -> None:
        self._armed = self._kind = 0
        self._target = -1
        self._random = None
        self.recorder.on_leave = None

    def _act(self) -> None:
        began = time.monotonic()
        try:
            if self._kind == CHECKPOINT:
                exact = self.recorder.begun_by == "fetch" or self._random is None
                random = random_states() if exact else self._random
                save(self.recorder, self.sight, self._rank(), random)
            elif self._kind == STOP:
                self._stop()
        finally:
            self.recorder.spent -= int((time.monotonic() - began) * 1e9)

    def _stop(self) -> None:
        """End the program as ``kill`` does: its own handler where it has one, else at once, with the trace closed."""
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self.recorder.close("signal", 128 + int(signal.SIGTERM), "stopped by preflight monitor")
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()
        os.kill(os.getpid(), signal.SIGTERM)
