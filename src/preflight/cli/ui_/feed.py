"""One recording on its way to those who look at it: judged by a thread of its own while somebody does."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from preflight.cli.ui_.view import Heat, heat_of, sections_of
from preflight.errors import PreflightError
from preflight.monitor.dashboard.board import Board, Key
from preflight.monitor.dashboard.curves import Curve
from preflight.monitor.follow import Follower, run_has_ended
from preflight.monitor.invariants_file import read_invariants
from preflight.monitor.recording import KEPT
from preflight.monitor.trace.folder import TraceFolder
from preflight.monitor.trace.run_file import read_run
from preflight.vocabulary.invariant import Invariant

LOOK_EVERY = 1.0
"""Seconds between two looks at a recording that grows."""
TELL_EVERY = 1.0
"""Seconds between two pictures of a recording that is read for the first time."""


class Frame(msgspec.Struct, frozen=True):
    """What a page shows at a moment; nothing in it changes any more.

    Attributes:
        number: Larger than that of every earlier frame.
        sections: JSON by the name of a part of the page.
        curves: The curves.
        heat: Step times by rank.
    """

    number: int
    sections: Mapping[str, bytes]
    curves: Mapping[Key, Curve]
    heat: Heat


class Feed:
    """Follows a recording while somebody looks at it, and keeps the last frame.

    Attributes:
        frame: The last frame; None before the first look.
    """

    def __init__(self, path: Path, invariants: Sequence[Invariant], kept: bool = True) -> None:
        """Take the folder of the recording, and what must hold in it.

        Args:
            path: The folder.
            invariants: What must hold.
            kept: Whether what the run itself is held against comes before these.
        """
        self.path = path
        self.frame: Frame | None = None
        self._given = self._invariants = invariants
        self._kept = kept
        self._follower: Follower | None = None
        self._over = False  # everything was judged, and nobody writes any more
        self._started: float | None = None
        self._viewers = 0
        self._numbers = 0
        self._told = 0.0
        self._wake = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def join(self) -> None:
        """Somebody looks."""
        with self._lock:
            self._viewers += 1
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name=f"preflight ui {self.path.name}", daemon=True)
                self._thread.start()
        self._wake.set()

    def leave(self) -> None:
        """Somebody looks no more."""
        with self._lock:
            self._viewers -= 1

    @property
    def idle(self) -> bool:
        """Whether nobody looks."""
        return self._viewers <= 0

    def close(self) -> None:
        """Look no more."""
        self._closed = True
        self._wake.set()

    def look(self) -> None:
        """Judge what has come since the last look, and make a frame of it."""
        try:
            self._look()
        except PreflightError as error:
            self._follower = None
            self._publish({"problem": {"text": str(error), "hint": error.hint}})
        except Exception as error:  # a page that says so is better than one that stands still
            self._follower, self._over = None, True
            self._publish({"problem": {"text": f"{type(error).__name__}: {error}", "hint": None}})

    def _run(self) -> None:
        while not self._closed:
            if self.idle:
                self._wake.wait()
                self._wake.clear()
                continue
            self.look()
            self._wake.wait(LOOK_EVERY)
            self._wake.clear()

    def _look(self) -> None:
        run = read_run(self.path)
        started = run.started if run is not None else None
        if self._follower is not None and started != self._started:
            self._follower = None  # another run writes here now
        if self._follower is None:
            self._started, self._over = started, False
            self._invariants = self._own() or self._given
            self._follower = Follower(TraceFolder(self.path), self._invariants, Board)
            ended = run_has_ended(self._follower)
            self._show(reading=True)  # of many ranks, the first look takes a while
            if ended:
                self._whole(self._follower)
                return
        if self._over:
            return
        ended = run_has_ended(self._follower)
        try:
            self._follower.take(ended, tell=self._far)
        except PreflightError:
            if not ended:
                raise  # it is begun anew at the next look
            # The run has ended and its files were sealed between two looks: read what took their place.
            self._follower = Follower(TraceFolder(self.path), self._invariants, Board)
            self._whole(self._follower)
            return
        self._over = ended
        self._show(reading=False)

    def _own(self) -> Sequence[Invariant]:
        """What the run itself is held against, so that the page and its terminal say the same."""
        file = self.path / KEPT
        return read_invariants(file) if self._kept and file.is_file() else ()

    def _whole(self, follower: Follower) -> None:
        """Judge a run that has ended, a part at a time."""
        follower.check(lambda _: self._far())
        follower.folder.refresh()
        self._over = True
        self._show(reading=False)

    def _far(self) -> None:
        """Show how far a long look is."""
        if not self._closed and time.monotonic() - self._told >= TELL_EVERY:
            self._show(reading=True)

    def _show(self, reading: bool) -> None:
        follower = self._follower
        assert follower is not None
        boards = [team.watching for team in follower.teams]
        board = boards[-1] if boards and isinstance(boards[-1], Board) else Board()
        sections = sections_of(follower, board, self._invariants, over=self._over, reading=reading)
        curves = {key: curve.copy() for key, curve in board.curves.items()}
        self._publish(sections, curves, heat_of(board))

    def _publish(
        self, sections: Mapping[str, Any], curves: Mapping[Key, Curve] | None = None, heat: Heat | None = None
    ) -> None:
        self._numbers += 1
        self._told = time.monotonic()
        encoded = {name: plain_json(value) for name, value in sections.items()}
        self.frame = Frame(self._numbers, encoded, curves or {}, heat or Heat())


def plain_json(value: Any) -> bytes:
    """Return JSON in which a number that is not finite is null."""
    return msgspec.json.encode(msgspec.json.decode(msgspec.json.encode(value)))


class Feeds:
    """The feeds of the recordings that somebody looked at lately."""

    MOST = 4

    def __init__(self, invariants: Sequence[Invariant], kept: bool = True) -> None:
        """Take what must hold in every recording; with ``kept``, but in those that keep their own."""
        self._invariants = invariants
        self._kept = kept
        self._feeds: dict[Path, Feed] = {}

    def of(self, path: Path) -> Feed:
        """The feed of a recording; of those that nobody looks at, the oldest is given up for it where there are many."""
        feed = self._feeds.pop(path, None) or Feed(path, self._invariants, self._kept)
        self._feeds[path] = feed  # the last one that was asked for stands last
        for other in [one for one in self._feeds.values() if one.idle and one is not feed]:
            if len(self._feeds) > self.MOST:
                other.close()
                del self._feeds[other.path]
        return feed

    def close(self) -> None:
        """Look at nothing any more."""
        for feed in self._feeds.values():
            feed.close()
