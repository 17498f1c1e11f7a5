"""Asks the ranks of a program for a checkpoint or for its end, at an iteration that all of them agree on."""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path
from typing import Literal

from preflight.monitor.collect.control import CELL, CELLS, CHECKPOINT, HEAD, MAGIC, OWN, RANKS, SIZE, STOP
from preflight.monitor.collect.snapshot import FOLDER

NAME = "control"
SETTLE = 0.05
"""Seconds in which a rank that ends an iteration sees for certain what was asked before."""
Kind = Literal["checkpoint", "stop"]
_KINDS: dict[Kind, int] = {"checkpoint": CHECKPOINT, "stop": STOP}


class Asking:
    """The watching side of the file: one request at a time.

    Attributes:
        path: The file.
        iteration: At which iteration the ranks act; None while that is not known.
    """

    def __init__(self, folder: Path) -> None:
        """Make the file; it has to be there before the program starts."""
        self.path = folder / NAME
        self.path.write_bytes(bytes(SIZE))
        with self.path.open("r+b") as stream:
            self._memory = mmap.mmap(stream.fileno(), SIZE)
        HEAD.pack_into(self._memory, 0, MAGIC, 0, 0, -1, 0)
        self._request = 0
        self._kind: Kind | None = None
        self._asked = 0.0
        self._most = 0
        self.iteration: int | None = None

    @property
    def busy(self) -> bool:
        """Whether something is asked that is not done."""
        return self._kind is not None

    def ask(self, kind: Kind) -> None:
        """Ask for something; ``look`` has to be called from time to time until it is done."""
        self._request += 1
        self._kind, self.iteration = kind, None
        HEAD.pack_into(self._memory, 0, MAGIC, _KINDS[kind], self._request, -1, 0)
        self._asked = time.monotonic()

    def look(self) -> str | None:
        """Go on with what was asked; return a sentence when it is done or cannot be."""
        kind = self._kind
        if kind is None or time.monotonic() - self._asked < SETTLE:
            return None
        ranks = self._ranks()
        self._most = max(self._most, len(ranks))
        if self.iteration is None:
            if any(waits == -self._request for _, waits, _ in ranks.values()):
                return self._end(f"the {kind} was given up: the ranks waited too long for each other")
            if not any(waits == self._request for _, waits, _ in ranks.values()):
                return None  # nobody has come to the end of an iteration yet
            # A rank that waits has ended `ended` iterations; one that does not will see the request when it ends the
            # next. One more whole iteration lets every rank prepare for it.
            self.iteration = 1 + max(
                ended if waits == self._request else ended + 1 for ended, waits, _ in ranks.values()
            )
            HEAD.pack_into(self._memory, 0, MAGIC, _KINDS[kind], self._request, self.iteration, self._request)
            return None
        if kind == "checkpoint" and ranks and all(done >= self._request for _, _, done in ranks.values()):
            return self._end(self._saved(len(ranks)))
        return None

    def _saved(self, ranks: int) -> str:
        folder = self.path.parent / FOLDER
        newest = max(folder.glob("iteration-*"), default=None) if folder.is_dir() else None
        found = len(list(newest.glob("rank-*.pt"))) if newest is not None else 0
        if newest is None or found < ranks:
            return f"{ranks - found} of {ranks} ranks could not save a checkpoint; the trace says why"
        return f"checkpoint of {ranks} {'rank' if ranks == 1 else 'ranks'} in {newest}"

    def _end(self, said: str) -> str:
        HEAD.pack_into(self._memory, 0, MAGIC, 0, self._request, -1, 0)
        self._kind = None
        return said

    def _ranks(self) -> dict[int, tuple[int, int, int]]:
        """Of every rank that lives: iterations ended, the request that it waits for, the last one it has done."""
        found: dict[int, tuple[int, int, int]] = {}
        for rank in range(RANKS):
            ended, pid, waits, done = OWN.unpack_from(self._memory, CELLS + rank * CELL)
            if pid and _lives(pid):
                found[rank] = (ended, waits, done)
        return found

    def close(self) -> str | None:
        """Ask nothing any more: the program has ended. Say what became of what was under way, unless it was stopped."""
        said = None
        if self._kind == "checkpoint":
            said = "the program ended before every rank could save a checkpoint"
            if self.iteration is not None and self._most:
                made = self._saved(self._most)
                said = made if made.startswith("checkpoint of") else said
        elif self._kind == "stop" and not self._stopped():
            said = "the program ended before it could be stopped"
        self._end("")
        self._memory.close()
        return said

    def _stopped(self) -> bool:
        """Whether a rank, which may be gone, has come to the iteration at which to end."""
        cells = (OWN.unpack_from(self._memory, CELLS + rank * CELL) for rank in range(RANKS))
        return any(done >= self._request for _, _, _, done in cells)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
