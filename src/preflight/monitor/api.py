"""The monitor for programs: a trace checked, and a part of this process recorded and watched."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from preflight.errors import UsageError
from preflight.vocabulary.invariant import Violation
from preflight.vocabulary.report import Report

Path_ = str | os.PathLike[str]


def check_trace(*folders: Path_, invariants: Sequence[Path_] = ()) -> Report:
    """Hold recorded runs against what must hold in them.

    Args:
        folders: Trace folders.
        invariants: Invariants files; the shipped library where there is none.

    Returns:
        The report that ``preflight monitor check`` shows.

    Raises:
        TraceError: A folder holds no trace.
        InputError: An invariants file cannot be read.
    """
    from preflight.monitor.follow import Follower
    from preflight.monitor.library_of import in_force
    from preflight.monitor.outcome import report_of, together
    from preflight.monitor.trace.folder import TraceFolder

    if not folders:
        raise UsageError("no trace is given", "name the folder of one")
    held = in_force(invariants)
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
        report: What was found; None until the part has ended.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.report: Report | None = None

    @property
    def violations(self) -> tuple[Violation, ...]:
        """What was found; empty until the part has ended."""
        return self.report.violations if self.report is not None else ()


@contextlib.contextmanager
def monitoring(
    output: Path_ | None = None,
    *,
    invariants: Sequence[Path_] = (),
    budget: float = 2.0,
    every: int = 16,
    watch: bool = True,
    force: bool = False,
) -> Iterator[Monitoring]:
    """Record and watch what is trained inside of the ``with``; afterwards everything is as it was.

    ::

        with preflight.monitoring("trace") as run:
            train()
        print(run.report.verdict)

    On several ranks, each of them enters it with the same folder. A second process watches and tells of alarms on
    stderr while the training goes on; the one of rank 0 does so for all.

    Args:
        output: The trace folder; ``.preflight/monitor/NAME-NUMBER`` where it is None.
        invariants: Invariants files; the shipped library where there is none.
        budget: The share of the time that recording may take, in per cent; 0 for no limit.
        every: Every how many iterations one is recorded in detail, after the first ones.
        watch: Whether to watch live.
        force: Whether to write over a trace that is in the folder.

    Raises:
        UsageError: The folder holds a trace, or this process is recorded already.
    """
    from preflight.monitor.collect.session import Session
    from preflight.monitor.collect.settings import VARIABLE, Settings
    from preflight.monitor.library_of import in_force
    from preflight.monitor.recording import Recording, free_folder, prepare

    if os.environ.get(VARIABLE):
        raise UsageError("this process is recorded already", "leave out preflight.monitoring, or preflight monitor run")
    import_module("torch")
    held = in_force(invariants)
    command = [sys.executable, *(sys.argv or [""])]
    rank = int(os.environ.get("RANK", 0))
    folder = Path(output) if output is not None else free_folder(command)
    if rank == 0:
        prepare(folder, force)
    folder.mkdir(parents=True, exist_ok=True)
    settings = Settings(folder=str(folder.resolve()), budget=budget, detail_every=every)
    about = Recording(folder, command, settings)
    if rank == 0:
        about.begin()
    watcher = _watcher(folder, invariants) if watch and rank == 0 else None
    run = Monitoring(folder)
    session = Session(settings)
    session.start()
    error: str | None = None
    try:
        yield run
    except BaseException as raised:
        error = f"{type(raised).__name__}: {raised}"[:500]
        raise
    finally:
        session.stop("exception" if error else "exit", 1 if error else 0, error)
        if rank == 0:
            run.report = _ended(folder, about, held, watcher, error)


def _watcher(folder: Path, invariants: Sequence[Path_]) -> Any:
    """Start the process that watches."""
    import subprocess

    words = [word for file in invariants for word in ("--invariants", os.fspath(file))]
    program = "import sys; from preflight.cli.main import main; sys.exit(main())"
    source = str(Path(__file__).resolve().parents[2])
    path = os.environ.get("PYTHONPATH")
    return subprocess.Popen(
        [sys.executable, "-c", program, "monitor", "watch", str(folder), "--quiet", *words],
        env={**os.environ, "PYTHONPATH": source + (os.pathsep + path if path else "")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )


def _ended(folder: Path, about: Any, held: Sequence[Any], watcher: Any, error: str | None) -> Report:
    """Say in ``run.json`` how it ended, wait for the watching process, and judge the whole."""
    from preflight.monitor.follow import Follower
    from preflight.monitor.outcome import report_of
    from preflight.monitor.trace.folder import TraceFolder

    follower = Follower(TraceFolder(folder), held)
    follower.check()
    about.end(os.getpid(), 1 if error else 0, follower.folder.processes)
    follower.folder.refresh()
    if watcher is not None:
        with contextlib.suppress(Exception):
            watcher.wait(30)
        if watcher.poll() is None:
            watcher.kill()
            watcher.wait()
    return report_of(follower, held, "monitor check")
