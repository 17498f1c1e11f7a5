"""The heart of a rank: a thread that counts up a number in the store, looks after its neighbours, and never disturbs."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from preflight.errors import PreflightError
from preflight.investigate.liveness.board import Board, endpoint_of
from preflight.investigate.liveness.bounded import StoreSilent
from preflight.investigate.liveness.process import look, myself
from preflight.vocabulary.live import RankPulse

LOOKS_EVERY = 2
"""After so many beats, the processes of the same node are looked at."""


def run_name() -> str:
    """Name the run and the attempt, from torchrun's variables."""
    return f"{os.environ.get('TORCHELASTIC_RUN_ID', 'run')}.{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"


class Heart:
    """Beats for one rank until it is told to stop.

    A process that is killed or stopped, or that holds the interpreter's lock, does not beat. One that waits in a
    collective does: what it does not do is step, which is why :meth:`step` should be called.

    Args:
        rank: The rank.
        world_size: How many there are.
        endpoint: Host and port of the store.
        every: Seconds between two beats.
        run: Name of the run and the attempt.
        neighbours: Ranks of the same node, whose processes this one looks at.
    """

    def __init__(
        self, rank: int, world_size: int, endpoint: tuple[str, int], *, every: float = 1.0, run: str | None = None,
        neighbours: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        self.rank, self.world_size, self.every = rank, world_size, every
        self.board = Board(endpoint, run_name() if run is None else run)
        self.neighbours = tuple(other for other in neighbours if other != rank)
        self.lost: str | None = None
        self._step: int | None = None
        self._known: dict[int, dict[str, Any]] = {}
        self._seen: dict[int, str] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._live, name="preflight-heart", daemon=True)

    def start(self) -> Heart:
        """Begin to beat; where the store is not there, it stays silent and says why in ``lost``."""
        self._thread.start()
        return self

    def step(self, number: int) -> None:
        """Tell which step the training is at; costs nothing, the thread passes it on."""
        self._step = number

    def stop(self) -> None:
        """Say goodbye and end."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=self.board.seconds)
        with suppress(PreflightError):
            self.board.tell("left", self.rank, "1")
        self.board.close()

    def _live(self) -> None:
        try:
            self.board.connect()
            self.board.introduce(self.rank, {**myself(), "every": self.every})
            self.board.announce(self.world_size)
        except StoreSilent as error:
            self.lost = str(error)
            return
        beats, told = 0, None
        while not self._stop.wait(self.every):
            try:
                self.board.beat(self.rank)
                if self._step != told:
                    told = self._step
                    self.board.tell("step", self.rank, str(told))
                beats += 1
                if beats % LOOKS_EVERY == 0:
                    self._look_around()
            except StoreSilent as error:
                self.lost = str(error)
                return

    def _look_around(self) -> None:
        """Tell of neighbours whose process is stopped or gone: only a process of their node can see that."""
        strangers = [rank for rank in self.neighbours if rank not in self._known]
        if strangers:
            for rank, count in self.board.beats(strangers).items():
                if count:
                    self._known[rank] = self.board.who(rank)
        for rank, who in self._known.items():
            state = look(who)
            if state is not None and state != self._seen.get(rank, "there"):
                self._seen[rank] = state
                self.board.tell("look", rank, f"{state} {self.rank}")


def from_environment(every: float) -> Heart:
    """Return the heart of the rank that torchrun's variables name."""
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    local, size = int(os.environ.get("LOCAL_RANK", "0")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return Heart(
        rank, world, endpoint_of(None), every=every, neighbours=tuple(range(rank - local, rank - local + size))
    )


@contextmanager
def beating(
    *, every: float = 1.0, warn_after: float | None = None, on_lost: Callable[[RankPulse], None] | None = None
) -> Iterator[Heart]:
    """Let this rank's heart beat while the block runs.

    Args:
        every: Seconds between two beats.
        warn_after: Also watch all other ranks, from here, and tell of each one that was silent for so many seconds, once.
        on_lost: Called in a thread of its own with what is known of such a rank; default: a line on stderr.
    """
    from preflight.investigate.liveness.observer import Watch

    heart = from_environment(every).start()
    watch = None
    if warn_after is not None:
        watch = Watch(heart.board.endpoint, heart.board.run, heart.world_size, warn_after, on_lost or _warn).start()
    try:
        yield heart
    finally:
        if watch is not None:
            watch.stop()
        heart.stop()


def _warn(pulse: RankPulse) -> None:
    print(f"preflight: rank {pulse.rank} is {pulse.state}: {pulse.reason}", file=sys.stderr, flush=True)
