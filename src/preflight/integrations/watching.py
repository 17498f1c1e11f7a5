"""What the callbacks of all trainers share: a recording that begins and ends with the training, and tells who listens."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from preflight.integrations.trackers import in_use
from preflight.monitor.live.remarks import reason_of, say

if TYPE_CHECKING:
    from preflight.monitor.live.part import Part
    from preflight.monitor.live.tracking import Tracker
    from preflight.vocabulary.report import Report

Path_ = str | os.PathLike[str]


class Watching:
    """One training after the other, each recorded and watched from ``begin`` to ``end``.

    Attributes:
        report: What was found in the last one that has ended, on the first rank; else None.
        folder: The trace folder of the last one; None before the first.
    """

    def __init__(
        self,
        output: Path_ | None = None,
        *,
        invariants: Path_ | Sequence[Path_] = (),
        budget: float = 2.0,
        every: int | None = None,
        watch: bool = True,
        force: bool = False,
        trackers: Sequence[Tracker] | None = None,
    ) -> None:
        """Keep what ``preflight.monitoring`` is asked for; ``trackers=None`` takes those that the program uses.

        Raises:
            InputError: An invariants file cannot be read; better now than when the training begins.
        """
        from preflight.monitor.library_of import in_force, several

        files = several(invariants)
        in_force(files)
        self._asked: dict[str, Any] = {
            "output": output, "invariants": files, "budget": budget, "every": every, "watch": watch, "force": force,
        }  # fmt: skip
        self._trackers = trackers
        self._part: Part | None = None
        self.report: Report | None = None
        self.folder: Path_ | None = None

    def begin(self, found: Sequence[Tracker] = ()) -> None:
        """Begin, unless this process is recorded already, which is said.

        Whatever else stands in the way is said too, and the training goes on without a recording. A folder that holds
        a trace stays: the next free ``FOLDER-NUMBER`` is taken.

        Args:
            found: Trackers that the trainer knows of; they take the place of those of their kind that are looked for.
        """
        if self._part is not None:
            return
        with _told("the training is not recorded"):
            self._begin(found)

    def _begin(self, found: Sequence[Tracker]) -> None:
        from preflight.monitor.live.meeting import is_first
        from preflight.monitor.live.part import Part, is_recorded

        self.report = None
        if is_recorded():
            say("this process is recorded already; the callback leaves it to that")
            return
        trackers = self._trackers
        if trackers is None:
            trackers = with_found(found) if is_first() else ()
        self._part = Part(**self._asked, trackers=trackers, spare=True)
        self.folder = self._part.folder
        atexit.register(self._left)

    def find(self) -> None:
        """Look again for trackers that the program uses, where they came after the recording began."""
        if self._part is not None and self._trackers is None:
            with _told("no tracker is told"):
                self._part.tell(in_use(), found=True)

    def end(self, error: BaseException | None = None) -> None:
        """End, judge, and say the verdict."""
        part, self._part = self._part, None
        if part is None:
            return
        with _told("the recording is not judged"):
            atexit.unregister(self._left)
            self.report = part.end(error)
            if self.report is not None:
                say(f"{self.report.verdict}  {counted(self.report)}; the trace is in {part.folder}")

    def _left(self) -> None:
        """The program ends in the middle of a training."""
        self.end(getattr(sys, "last_value", None))


def with_found(given: Sequence[Tracker]) -> list[Tracker]:
    """Return trackers that a trainer knows of, and those that the program uses besides."""
    names = {one.name for one in given}
    return [*given, *(one for one in in_use() if one.name not in names)]


def counted(report: Report) -> str:
    """Return how many alarms there are, in words."""
    from preflight.monitor.live.tracking import alarms_of, counts

    found = counts(alarms_of(report))
    told = [
        f"{int(found[name])} {name[:-1] if found[name] == 1 else name}"
        for name in ("errors", "warnings")
        if found[name]
    ]
    return ", ".join(told) or "no alarms"


@contextlib.contextmanager
def _told(so: str) -> Iterator[None]:
    """Say what goes wrong inside, and what comes of it; nothing gets out into the training."""
    try:
        yield
    except Exception as error:
        say(f"{so}: {reason_of(error)}")


__all__ = ["Watching", "with_found"]
