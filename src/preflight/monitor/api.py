"""The monitor for programs: a trace checked, and a part of this process recorded and watched."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from preflight.errors import UsageError
from preflight.vocabulary.invariant import Violation
from preflight.vocabulary.report import Report

if TYPE_CHECKING:
    from preflight.monitor.live.part import Part
    from preflight.monitor.live.tracking import Tracker

Path_ = str | os.PathLike[str]


def check_trace(*folders: Path_, invariants: Path_ | Sequence[Path_] = ()) -> Report:
    """Hold recorded runs against what must hold in them.

    Args:
        folders: Trace folders.
        invariants: An invariants file, or several; the shipped library where there is none.

    Returns:
        The report that ``preflight monitor check`` shows.

    Raises:
        TraceError: A folder holds no trace.
        InputError: An invariants file cannot be read.
    """
    from preflight.monitor.follow import Follower
    from preflight.monitor.library_of import in_force, several
    from preflight.monitor.outcome import report_of, together
    from preflight.monitor.trace.folder import TraceFolder

    if not folders:
        raise UsageError("no trace is given", "name the folder of one")
    held = in_force(several(invariants))
    reports = []
    for folder in folders:
        follower = Follower(TraceFolder(Path(folder)), held)
        follower.check()
        reports.append(report_of(follower, held, "monitor check"))
    return together(reports, "monitor check")


class Monitoring:
    """A part of a program that is recorded.

    Attributes:
        folder: The trace folder.
    """

    def __init__(self, part: Part) -> None:
        self.folder = part.folder
        self._part = part

    @property
    def report(self) -> Report | None:
        """What was found; None until the part has ended, on all ranks but the first, and where judging failed."""
        return self._part.report

    @property
    def violations(self) -> tuple[Violation, ...]:
        """What was found; empty until the part has ended."""
        return self.report.violations if self.report is not None else ()


@contextlib.contextmanager
def monitoring(
    output: Path_ | None = None,
    *,
    invariants: Path_ | Sequence[Path_] = (),
    budget: float = 2.0,
    every: int | None = None,
    watch: bool = True,
    force: bool = False,
    trackers: Sequence[Tracker] = (),
) -> Iterator[Monitoring]:
    """Record and watch what is trained inside of the ``with``; afterwards everything is as it was.

    Only the begin of it raises; what goes wrong with the recording later is said on stderr, and ``report`` is None.

    ::

        with preflight.monitoring("trace") as run:
            train()
        print(run.report.verdict)

    On several ranks, each of them enters it with the same folder. A second process watches and tells of alarms on
    stderr while the training goes on; the one of rank 0 does so for all.

    Args:
        output: The trace folder; ``.preflight/monitor/NAME-NUMBER`` where it is None.
        invariants: An invariants file, or several; the shipped library where there is none.
        budget: The share of the time that recording may take, in per cent; 0 for no limit. Pauses keep it where nothing else
            does, once recording has cost 20 seconds in all.
        every: Every how many iterations one is recorded in detail, after the first ones; None: 16, and each one while
            the run is young (see the command).
        watch: Whether to watch live.
        force: Whether to write over a trace that is in the folder.
        trackers: Who is told of figures, alarms and the verdict, as of ``preflight.integrations.trackers``.

    Raises:
        UsageError: The folder holds a trace, or this process is recorded already.
        TraceError: The folder cannot be written.
    """
    from preflight.monitor.library_of import several
    from preflight.monitor.live.part import Part

    files = several(invariants)
    part = Part(output, invariants=files, budget=budget, every=every, watch=watch, force=force, trackers=trackers)
    try:
        yield Monitoring(part)
    except BaseException as raised:
        part.end(raised)
        raise
    part.end()
