"""Whoever wants to know who lives: looks at the beats for a while, and names the ranks whose heart stood still."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from preflight.investigate.liveness.board import Board, load
from preflight.investigate.liveness.bounded import StoreSilent
from preflight.investigate.liveness.process import look
from preflight.vocabulary.live import Pulse, RankPulse

POLL_SECONDS = 0.25
"""Beats are looked at this often; a store on another continent answers a look at 1,000 ranks within it."""
ANSWER_SECONDS = 1.0
"""How long the store may take for one answer once the deadline is over."""


class Beats:
    """When each rank's count was last seen to change, by the observer's clock: nobody else's clock is read."""

    def __init__(self, ranks: list[int], now: float) -> None:
        self.counts: dict[int, int] = {}
        self.changed = dict.fromkeys(ranks, now)
        self.moved: set[int] = set()

    def see(self, counts: dict[int, int], now: float) -> None:
        """Take in a look at the counts."""
        for rank, count in counts.items():
            if rank in self.counts and count != self.counts[rank]:
                self.moved.add(rank)
                self.changed[rank] = now
            elif rank not in self.counts:
                self.changed[rank] = now
            self.counts[rank] = count

    def silent(self, now: float, deadline: float) -> list[int]:
        """Return the ranks whose count has not changed for so long."""
        return [rank for rank, at in self.changed.items() if now - at >= deadline]


def observe(
    endpoint: tuple[str, int], *, world_size: int | None = None, deadline: float = 5.0, run: str | None = None,
    stall: bool = False,
) -> tuple[RankPulse, ...]:  # fmt: skip
    """Say of each rank whether it lives, within the deadline and about a second.

    Args:
        endpoint: Host and port of the store in which the hearts beat.
        world_size: How many ranks there should be; what the ranks announced when None.
        deadline: A heart that does not beat for so many seconds has stopped. Longer than two beats.
        run: Name of run and attempt; the last one announced when None.
        stall: Also tell of ranks that live and whose step did not change in the whole time, which is then waited out.

    Raises:
        StoreSilent: The store is not there, does not answer, or no heart has ever beaten in it.
    """
    load()
    end = time.monotonic() + deadline
    board = Board(endpoint, run or "", seconds=deadline)
    try:
        board.connect(deadline)
        told = board.announced() if run is None or world_size is None else (run, world_size)
        if told is None:
            raise StoreSilent(
                f"no heart has beaten in the store at {endpoint[0]}:{endpoint[1]}",
                "the training program has to call preflight.investigate.liveness.beating()",
            )
        board.run = run or told[0]
        ranks = list(range(world_size or told[1]))
        steps = {rank: board.told("step", rank) for rank in ranks} if stall else {}
        beats = _until(board, ranks, end, wait_all=stall)
        board.seconds = ANSWER_SECONDS
        pulses = [_pulse(board, rank, beats, deadline) for rank in ranks]
        return tuple(_or_stalled(pulse, steps, deadline) if stall else pulse for pulse in pulses)
    finally:
        board.close()


def _until(board: Board, ranks: list[int], end: float, *, wait_all: bool) -> Beats:
    """Look at the beats until all have moved or the time is over."""
    beats = Beats(ranks, time.monotonic())
    left: set[int] = set()
    while True:
        now = time.monotonic()
        board.seconds = max(end - now, 0.0) + ANSWER_SECONDS
        beats.see(board.beats(ranks), now)
        still = [rank for rank in ranks if rank not in beats.moved and rank not in left]
        left |= {rank for rank in still if beats.counts[rank] and board.told("left", rank)}
        if (not wait_all and len(beats.moved | left) == len(ranks)) or time.monotonic() + POLL_SECONDS > end:
            return beats
        time.sleep(POLL_SECONDS)


def _pulse(board: Board, rank: int, beats: Beats, deadline: float) -> RankPulse:
    """Say what is known of a rank."""
    if not beats.counts.get(rank):
        return RankPulse(rank=rank, state="absent", reason="never heard of: it did not start, or did not come so far")
    who = board.who(rank)
    step = board.told("step", rank)
    told: dict[str, Any] = {
        "rank": rank, "node": who.get("node"), "pid": who.get("pid"), "step": int(step) if step else None,
    }  # fmt: skip
    if board.told("left", rank):
        return RankPulse(**told, state="left", reason="it said goodbye")
    silence = time.monotonic() - beats.changed[rank]
    if rank in beats.moved and silence < deadline:
        return RankPulse(**told, state="alive", reason="its heart beats")
    state, by = _looked(board, rank, who)
    return RankPulse(**told, state=state, seen_by=by, silent_seconds=round(silence, 3), reason=_why(state, by, silence))


def _looked(board: Board, rank: int, who: dict[str, Any]) -> tuple[Pulse, str | None]:
    """Return what its process is seen to be: from here, or by a rank of its node."""
    seen, by = look(who), "observer"
    if seen is None:
        noted = board.told("look", rank)
        seen, _, neighbour = (noted or "").partition(" ")
        by = f"rank {neighbour}"
    states: dict[str, Pulse] = {"gone": "gone", "stopped": "stopped", "there": "frozen"}
    return (states[seen], by) if seen in states else ("silent", None)


def _why(state: Pulse, by: str | None, silence: float) -> str:
    words = {
        "gone": "its process is not there any more: killed, or ended without a goodbye",
        "stopped": "its process is stopped (SIGSTOP, a debugger, a frozen control group)",
        "frozen": "its process is there and its heart does not beat: a thread holds the interpreter's lock, or it swaps",
        "silent": "its heart does not beat, and no living rank of its node could look at its process",
    }
    return f"{words[state]}; nothing heard for {silence:.1f} s" + (f"; seen by {by}" if by else "")


def _or_stalled(pulse: RankPulse, steps: dict[int, str | None], deadline: float) -> RankPulse:
    before = steps.get(pulse.rank)
    if pulse.state != "alive" or before is None or str(pulse.step) != before:
        return pulse
    return RankPulse(
        rank=pulse.rank, state="stalled", node=pulse.node, pid=pulse.pid, step=pulse.step,
        reason=f"its heart beats and it has been at step {before} for {deadline:.0f} s",
    )  # fmt: skip


class Watch:
    """A thread that watches all ranks of a run and tells once of each that falls silent.

    Args:
        endpoint: Host and port of the store.
        run: Name of run and attempt.
        world_size: How many ranks there are.
        deadline: Seconds of silence after which a rank is told of; also the time that ranks have to appear.
        on_lost: Called with what is known of it.
    """

    def __init__(
        self, endpoint: tuple[str, int], run: str, world_size: int, deadline: float,
        on_lost: Callable[[RankPulse], None],
    ) -> None:  # fmt: skip
        self.board = Board(endpoint, run)
        self.ranks, self.deadline, self.on_lost = list(range(world_size)), deadline, on_lost
        self.told: set[int] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="preflight-watch", daemon=True)

    def start(self) -> Watch:
        """Begin."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End."""
        self._stop.set()
        self._thread.join(timeout=self.board.seconds)
        self.board.close()

    def _watch(self) -> None:
        try:
            self.board.connect()
            beats = Beats(self.ranks, time.monotonic())
            while not self._stop.wait(min(1.0, self.deadline / 4)):
                beats.see(self.board.beats(self.ranks), time.monotonic())
                for rank in beats.silent(time.monotonic(), self.deadline):
                    if rank not in self.told:
                        self._tell(rank, beats)
        except StoreSilent as error:
            if not self._stop.is_set():
                print(f"preflight: liveness is not watched any more: {error}", file=sys.stderr, flush=True)

    def _tell(self, rank: int, beats: Beats) -> None:
        pulse = _pulse(self.board, rank, beats, self.deadline)
        self.told.add(rank)
        if pulse.lost:
            self.on_lost(pulse)
