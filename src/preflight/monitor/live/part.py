"""A part of this process that is recorded and watched, from its begin to its end."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from preflight.errors import UsageError
from preflight.monitor.live import meeting
from preflight.monitor.live.remarks import reason_of, say
from preflight.monitor.live.tracking import Tracker, Tracking
from preflight.monitor.recording import Recording
from preflight.vocabulary.report import Report

if TYPE_CHECKING:
    from preflight.monitor.collect.settings import Settings

Path_ = str | os.PathLike[str]
ALERTS = "alerts.jsonl"


class Part:
    """A part of this process that is recorded.

    Attributes:
        folder: The trace folder; where this rank is not recorded, the one that was asked for.
        report: What was found; None until the part has ended, on all ranks but the first, and where judging failed.
    """

    _running = False

    def __init__(
        self,
        output: Path_ | None = None,
        *,
        invariants: Sequence[Path_] = (),
        budget: float = 2.0,
        every: int | None = None,
        watch: bool = True,
        force: bool = False,
        trackers: Sequence[Tracker] = (),
        spare: bool = False,
    ) -> None:
        """Begin; the arguments are those of ``preflight.monitoring``.

        With ``spare``, a folder that holds a trace is no error: the next free ``FOLDER-NUMBER`` is taken. A rank that
        does not find the first one's folder is not recorded, and says so.

        Raises:
            UsageError: The folder holds a trace, or this process is recorded already.
            TraceError: The folder cannot be written.
        """
        from preflight.monitor.library_of import in_force
        from preflight.monitor.recording import HOME, keep

        if is_recorded():
            raise UsageError(
                "this process is recorded already", "leave out preflight.monitoring, or preflight monitor run"
            )
        import_module("torch")
        self._held = in_force(invariants)
        self._first = meeting.is_first()
        self._process = os.getpid()
        self._watcher: Any = None
        self._session: Any = None
        self._tracking: Tracking | None = None
        self.report: Report | None = None
        asked = Path(output) if output is not None else None
        found = self._begun(asked, budget, every, force, spare) if self._first else meeting.join(_command(), asked)
        self.folder = found or asked or HOME
        if self._first and invariants and found is not None:
            keep(found, self._held)
        if found is None:
            say("the first rank is not recorded, or its folder is not seen from here: this rank is not recorded")
            return
        try:
            if watch and self._first:
                self._watcher = _watcher(found, invariants)
            self._start(found, _settings(found, budget, every), trackers)
        except BaseException:
            self._undone()
            raise

    def _begun(self, asked: Path | None, budget: float, every: int | None, force: bool, spare: bool) -> Path:
        """Make the folder ready, and tell the other ranks, also when it cannot be made."""
        folder = None
        try:
            claimed = meeting.claim(_command(), asked, force=force, spare=spare)
            self._about = Recording(claimed, _command(), _settings(claimed, budget, every))
            self._about.begin()
            folder = claimed
        finally:
            meeting.announce(folder)
        return folder

    def _start(self, folder: Path, settings: Settings, trackers: Sequence[Tracker]) -> None:
        from preflight.monitor.collect.session import Session

        self._session = Session(settings)
        self._tracking = Tracking(self._session.recorder, folder / ALERTS)
        self.tell(trackers)
        self._session.start()
        Part._running = True

    def _undone(self) -> None:
        """Take away what was put in place before something failed."""
        session, self._session = self._session, None
        for part, undo in ((session, "stop"), (self._tracking, "close"), (self, "_unwatched")):
            with contextlib.suppress(Exception):
                if part is not None:
                    getattr(part, undo)()

    def tell(self, trackers: Sequence[Tracker], *, found: bool = False) -> None:
        """Tell trackers from now on, where this is the first rank; ``found`` ones once for each kind."""
        if self._first and self._tracking is not None:
            for one in trackers:
                self._tracking.add(one, found=found)

    def end(self, error: BaseException | None = None) -> Report | None:
        """End the part, and judge the whole where this is the first rank; a second time does nothing.

        What goes wrong is said and goes no further: what was trained is still to be saved.
        """
        session, self._session = self._session, None
        tracking = self._tracking
        if session is None or tracking is None or os.getpid() != self._process:
            return self.report
        said = None if error is None else f"{type(error).__name__}: {error}"[:500]
        try:
            session.stop("exception" if said else "exit", 1 if said else 0, said)
            tracking.stop()
            if self._first:
                self.report = self._judged(1 if said else 0)
                tracking.end(self.report)
        except Exception as failure:
            say(f"the recording in {self.folder} is not judged: {reason_of(failure)}")
            self._ended(1 if said else 0)
        finally:
            Part._running = False
            tracking.close()
            self._unwatched()
        return self.report

    def _judged(self, code: int) -> Report:
        """Say in ``run.json`` how it ended, wait for the watching process, and judge the whole."""
        from preflight.monitor.follow import Follower
        from preflight.monitor.outcome import report_of
        from preflight.monitor.trace.folder import TraceFolder

        meeting.await_others(self.folder, meeting.world(), failed=bool(code))
        follower = Follower(TraceFolder(self.folder), self._held)
        follower.check()
        self._about.end(os.getpid(), code, follower.folder.processes)
        follower.folder.refresh()
        if self._watcher is not None:
            with contextlib.suppress(Exception):
                self._watcher.wait(meeting.PATIENCE)
        return report_of(follower, self._held, "monitor check")

    def _ended(self, code: int) -> None:
        """Say in ``run.json`` that it has ended, where judging has failed before."""
        with contextlib.suppress(Exception):
            if self._first and self._about.run.ended is None and self.folder.is_dir():
                self._about.end(os.getpid(), code, ())

    def _unwatched(self) -> None:
        """End the watching process where it has not ended by itself."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None and watcher.poll() is None:
            watcher.kill()
            watcher.wait()


def is_recorded() -> bool:
    """Whether this process is recorded, by a launcher or by itself."""
    from preflight.monitor.collect.settings import VARIABLE

    return bool(os.environ.get(VARIABLE)) or Part._running


def _command() -> list[str]:
    return [sys.executable, *(sys.argv or [""])]


def _settings(folder: Path, budget: float, every: int | None) -> Settings:
    from preflight.monitor.collect.settings import Settings, detail

    first, young, often = detail(None, every)
    return Settings(
        folder=str(folder.resolve()), detail_first=first, detail_young=young, detail_every=often, budget=budget
    )


def _watcher(folder: Path, invariants: Sequence[Path_]) -> Any:
    """Start the process that watches."""
    import subprocess

    words = [word for file in invariants for word in ("--invariants", os.fspath(file))]
    words += ["--alerts", str(folder / ALERTS)]
    program = "import sys; from preflight.cli.main import main; sys.exit(main())"
    source = str(Path(__file__).resolve().parents[3])
    path = os.environ.get("PYTHONPATH")
    return subprocess.Popen(
        [sys.executable, "-c", program, "monitor", "watch", str(folder), "--quiet", *words],
        env={**os.environ, "PYTHONPATH": source + (os.pathsep + path if path else "")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
