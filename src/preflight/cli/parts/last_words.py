"""What a trace tells of how its run ended, where no log of the run is given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import msgspec

from preflight.vocabulary.log import Ending, LogFile, Reading, StepLine, Who
from preflight.vocabulary.report import Report

if TYPE_CHECKING:
    from preflight.monitor.trace.folder import TraceFolder
    from preflight.monitor.trace.process import Process


def told_by(traces: Sequence[str], paths: Sequence[str]) -> Report:
    """Return the investigation of a run of which there are traces and no log.

    An exception that ended a rank is read as the line that Python printed of it; without one, the exit code of the program
    says what it can. A program that ended with 0 and all of whose ranks came to their end has ended well.

    Args:
        traces: The trace folders, of one run.
        paths: What was given, for the report.
    """
    from preflight.catalog.signature_files import load_signatures
    from preflight.investigate.diagnose import report_of
    from preflight.monitor.trace.gaps import failure_of

    folders = [_read(path) for path in traces]
    ended = [(path, one) for path, folder in zip(traces, folders, strict=True) for one in _last_start(folder)]
    failed = [(path, one, error) for path, one in ended if (error := failure_of(one)) is not None]
    codes = {None if folder.run is None else folder.run.exit_code for folder in folders}
    if not failed and codes == {0}:
        return _ended_well(report_of(Reading(), (), paths), [one for _, one in ended])
    reading = _words(failed) if failed else _codes(folders)
    if reading.files:
        reading = msgspec.structs.replace(reading, steps=(*reading.steps, *_steps(one for _, one in ended)))
    return report_of(reading, load_signatures(), paths)


def _read(path: str) -> TraceFolder:
    from preflight.monitor.trace.folder import WHO, TraceFolder

    folder = TraceFolder(path, WHO | {"iteration"})
    for _ in folder.poll():
        pass
    return folder


def _last_start(folder: TraceFolder) -> list[Process]:
    """Return the trainers of the last start: what ended those before did not end the run."""
    trainers = [one for one in folder.processes if one.role == "trainer"]
    last = max((one.attempt for one in trainers), default=0)
    return [one for one in trainers if one.attempt == last]


def _words(failed: Sequence[tuple[str, Process, str]]) -> Reading:
    """Read the exceptions as what each rank printed last, in the order in which they came."""
    from preflight.source.logs import read_logs

    lines: list[str] = []
    for _, one, error in sorted(failed, key=lambda each: (each[1].last_seen() or 0.0, each[1].rank)):
        before = f"{_time(one)}[rank{one.rank}]: "
        lines += [f"{before}{text}" for text in ("Traceback (most recent call last):", *error.splitlines())]
    reading = read_logs(["-"], stdin="\n".join((*lines, "")).encode("utf-8", "replace"))
    name = f"{failed[0][0]} (how its ranks ended)"
    return msgspec.structs.replace(
        reading, files=tuple(msgspec.structs.replace(file, path=name) for file in reading.files)
    )


def _codes(folders: Sequence[TraceFolder]) -> Reading:
    """Read what the exit codes of programs say; one is that of a rank where there is one alone."""
    files: list[LogFile] = []
    endings: list[Ending] = []
    for folder in folders:
        run, trainers = folder.run, _last_start(folder)
        if run is not None and run.exit_code:
            one = trainers[0] if len(trainers) == 1 else None
            about = Who() if one is None else Who(rank=one.rank, node=one.host, pid=one.pid)
            endings.append(
                Ending(
                    about=about, code=run.exit_code, teller="preflight monitor", time=run.ended, file=len(files), line=1
                )
            )
            files.append(LogFile(index=len(files), path=str(folder.path / "run.json"), kind="exit"))
    return Reading(files=tuple(files), endings=tuple(endings))


def _steps(trainers: Iterable[Process]) -> Iterator[StepLine]:
    """Yield the last iteration of each rank, as a line that tells a step."""
    for one in trainers:
        if one.iteration >= 0:
            who = Who(rank=one.rank, node=one.host)
            yield StepLine(file=0, line=1, step=one.iteration, values={}, who=who, time=one.last_seen())


def _time(one: Process) -> str:
    seen = one.last_seen()
    return "" if seen is None else f"{datetime.fromtimestamp(seen, timezone.utc):%Y-%m-%dT%H:%M:%S.%fZ} "


def _ended_well(report: Report, trainers: Sequence[Process]) -> Report:
    """Return the report of a run that ended as it should; the same one where a rank has no end or made no iteration."""
    from preflight.investigate.answers import Facts
    from preflight.investigate.diagnose import verdict_of
    from preflight.investigate.trees import walk

    incident = report.incident
    if incident is None or not trainers or any(one.end is None or one.iteration < 0 for one in trainers):
        return report
    told = f"the program ended with exit code 0 after iteration {max(one.iteration for one in trainers):,}"
    incident = msgspec.structs.replace(incident, state="ended", category="none", headline=told, reason=None)
    return msgspec.structs.replace(
        report, incident=incident, verdict=verdict_of(incident), walk=walk(Facts(incident=incident))
    )


__all__ = ["told_by"]
