"""What stands beside the logs of a failed run: reports of Preflight, alarms and traces, given by name or left in the run folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from preflight.errors import InputError
from preflight.vocabulary.invariant import Violation
from preflight.vocabulary.report import SCHEMA, Report, Stage, Tool, Verdict
from preflight.vocabulary.version import VERSION

ALERT = "preflight.alert/1"
HEAD = 4096
TAIL = 1 << 18
LOOKED_INTO = 64
SLACK = 10.0
"""Seconds that a log may be written to after the end of the run that it is of."""
TICK = 0.02
"""Seconds that a file's time may lag behind the clock: kernels stamp files with the time of their last tick."""


class Beside(NamedTuple):
    """Reports, each with the name of where it comes from; and which traces there are among what was given."""

    logs: tuple[str, ...]
    reports: tuple[tuple[str, Report], ...]
    traces: tuple[str, ...]


class _Alert(msgspec.Struct):
    schema: str
    violation: Violation
    run: str = ""


def sorted_out(paths: Sequence[str], invariants: Sequence[str] = ()) -> Beside:
    """Tell what Preflight wrote itself from logs: reports, files of alarms and trace folders.

    Args:
        paths: What was given; a trace folder that lies directly in a folder of these counts as well.
        invariants: What traces are held against; the shipped library where there is none.
    """
    logs: list[str] = []
    traces: list[str] = []
    found: list[tuple[str, Report]] = []
    for path in paths:
        if path != "-" and _is_trace(path):
            traces.append(path)
            found.append((path, _checked(path, invariants)))
        elif (report := _report(path)) is not None:
            found.append((path, report))
        else:
            logs.append(path)
            for inner in filter(_is_trace, _inside(path)):
                traces.append(inner)
                found.append((inner, _checked(inner, invariants)))
    return Beside(tuple(logs), tuple(found), tuple(traces))


def _inside(path: str) -> list[str]:
    """What lies directly in a folder; nothing where it cannot be listed, which the reading of logs says."""
    try:
        return [os.path.join(path, name) for name in sorted(os.listdir(path))]
    except OSError:
        return []


def _is_trace(path: str) -> bool:
    from preflight.monitor.trace.process import segments

    return os.path.isdir(path) and (os.path.isfile(os.path.join(path, "sealed.json")) or any(segments(Path(path))))


def names_a_trace(paths: Sequence[str]) -> bool:
    """Whether one of these is a trace folder."""
    return any(path != "-" and _is_trace(path) for path in paths)


def _checked(path: str, invariants: Sequence[str]) -> Report:
    from preflight.monitor.api import check_trace

    return check_trace(path, invariants=invariants)


def _report(path: str) -> Report | None:
    """A report that Preflight wrote, or its alarms; None where it is neither."""
    if not path.endswith((".json", ".jsonl")) or not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        head = file.read(HEAD)
    if b'"preflight.report/' in head:
        from preflight.report.json import from_json

        try:
            return from_json(Path(path).read_bytes())
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
    if ALERT.encode() in head.partition(b"\n")[0]:
        return _alarms(path)
    return None


def _alarms(path: str) -> Report:
    """The alarms of a file as a report of the monitor; a line that was not finished is left out."""
    found: list[Violation] = []
    for line in Path(path).read_bytes().splitlines():
        try:
            alert = msgspec.json.decode(line, type=_Alert)
        except msgspec.DecodeError:
            continue
        found.append(msgspec.structs.replace(alert.violation, group=len(found)))
    verdict: Verdict = "NO-GO" if any(one.decides for one in found) else "UNKNOWN"
    return Report(
        schema=SCHEMA, command="monitor run", tool=Tool("preflight", VERSION), verdict=verdict,
        inputs={"path": path}, violations=tuple(found),
    )  # fmt: skip


def incident_of(paths: Sequence[str], signatures: Sequence[str] = ()) -> Report:
    """Return the report of an incident: one that was written down, or a new one of logs and of what stands beside them.

    Raises:
        InputError: A path is not there, or a report is damaged or of another schema.
    """
    from preflight.investigate.saved import report_for

    if not names_a_trace(paths):
        return report_for(paths, signatures)
    beside = sorted_out(paths)
    return with_reports(investigated(paths, beside, signatures), beside, script_given=False)


def investigated(
    paths: Sequence[str], beside: Beside, signatures: Sequence[str], engine: Literal["local", "ray"] = "local"
) -> Report:
    """Return the investigation of the logs among what was given; of a run without any, of what its traces tell."""
    from preflight.investigate.diagnose import diagnose

    return diagnose(beside.logs, signatures=signatures, engine=engine) if beside.logs else _unread(paths, beside)


def _unread(paths: Sequence[str], beside: Beside) -> Report:
    """Return the investigation of a run of which no log was given.

    Its traces tell how it ended. An error that the monitor found comes before that: the program may have been ended
    because of it, and how it ended is only a remark.
    """
    from preflight.cli.parts.last_words import told_by

    if beside.traces and not any(one.verdict == "NO-GO" for _, one in beside.reports):
        return told_by(beside.traces, paths)
    from preflight.investigate.diagnose import report_of
    from preflight.vocabulary.log import Reading

    gaps = [gap for _, one in beside.reports if one.watched is not None for gap in one.watched.gaps]
    report = report_of(Reading(), (), paths)
    ends = (gap.text for gap in gaps if gap.what in ("failed", "no end"))
    return msgspec.structs.replace(report, notes=(*report.notes, *ends))


def with_reports(report: Report, beside: Beside, *, script_given: bool) -> Report:
    """Put beside an investigation what was given, and what the run folder holds of the run.

    Args:
        report: The investigation.
        beside: What was given.
        script_given: The script was checked already: older checks of it say nothing more.
    """
    from preflight.investigate.beside.foreseen import with_check
    from preflight.investigate.beside.watched import with_watched

    failed = report.incident.category if report.incident is not None else "none"
    watched = any(one.command.startswith("monitor") for _, one in beside.reports)
    left = [(name, one) for name, one in of_run_folder(beside.logs)
            if (not watched if one.command.startswith("monitor") else failed == "oom" and not script_given)]  # fmt: skip
    for name, one in (*beside.reports, *left):
        if one.command.startswith("monitor"):
            report = with_watched(report, one, name)
            if (name, one) in left:
                said = f"{name} was recorded while these logs were written, and is taken for the same run"
                report = msgspec.structs.replace(report, notes=(*report.notes, said))
        elif one.command in ("check", "plan"):
            subject = str(one.inputs.get("script") or one.inputs.get("path") or one.inputs.get("subject") or name)
            said = f"what preflight {one.command} says of {subject} comes from {name}"
            report = with_check(report, one, subject)
            report = msgspec.structs.replace(report, notes=(*report.notes, said))
        else:
            said = f"{name} is what preflight {one.command} told, and says nothing of why a run failed"
            report = msgspec.structs.replace(report, notes=(*report.notes, said))
    return report


def of_run_folder(logs: Sequence[str]) -> tuple[tuple[str, Report], ...]:
    """Return what the run folder holds of the run that the logs are of, the newest of each kind.

    Checks and plans are of the script; a watched run is only taken where the logs were written while it ran.
    """
    from preflight.cli.parts.run_folder import folder, stages

    where = folder()
    if where is None:
        return ()
    newest: dict[str, Stage] = {}
    of_scripts: list[Stage] = []
    for stage in stages(where)[0]:
        report = stage.report
        if report.command.startswith("monitor"):
            if _of_this_run(stage, logs):
                newest["monitor"] = stage
        elif report.command in ("check", "plan") and report.memory is not None:
            of_scripts.append(stage)
    for stage in _before(_named(of_scripts, logs), logs):
        method = stage.report.memory.method if stage.report.memory is not None else ""
        newest[f"{stage.report.command} {method}"] = stage
    # What ran on the virtual GPU is nearer to the run than what was read, and that nearer than a plan.
    nearest = sorted(newest, key=lambda kind: (not kind.endswith("dry-run"), kind))
    return tuple((f"{where}/reports/{newest[kind].number:04d}", newest[kind].report) for kind in nearest)


def _named(found: Sequence[Stage], logs: Sequence[str]) -> Sequence[Stage]:
    """Those whose script the logs name; all of them where they name none: a message without a traceback."""
    scripts = {_script(stage) for stage in found} - {""}
    seen: set[str] = set()
    for path in _files(logs) if len(scripts) > 1 else ():
        with open(path, "rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - TAIL, 0))
            text = file.read(TAIL)
        seen |= {name for name in scripts if os.fsencode(name) in text}
        if seen == scripts:
            break
    return [stage for stage in found if _script(stage) in seen] if seen else found


def _script(stage: Stage) -> str:
    given = stage.report.inputs
    told = given.get("path") if stage.report.command == "check" else given.get("script")
    return os.path.basename(str(told)) if told else ""


def _before(found: Sequence[Stage], logs: Sequence[str]) -> Sequence[Stage]:
    """Those from before the last line of the logs: what is checked afterwards may be the mended script."""
    written = [time for path in logs if (time := _last_written(path)) is not None]
    earlier = [stage for stage in found if written and stage.time <= max(written) + TICK]
    return earlier or found


def _files(logs: Sequence[str]) -> list[str]:
    """The files of the logs, as many as are looked into."""
    found = [path for path in logs if os.path.isfile(path)]
    for path in logs:
        found += [os.path.join(at, name) for at, _, names in os.walk(path) for name in sorted(names)]
    return found[:LOOKED_INTO]


def _of_this_run(stage: Stage, logs: Sequence[str]) -> bool:
    """Whether the last line of the logs was written while the run was recorded."""
    from preflight.errors import TraceError
    from preflight.monitor.trace.run_file import read_run

    written = [time for path in logs if (time := _last_written(path)) is not None]
    try:
        recorded = read_run(Path(str(stage.report.inputs.get("path", ""))))
    except TraceError:
        return False
    if recorded is None or recorded.started is None or not written:
        return False
    return recorded.started <= max(written) <= (recorded.ended or stage.time) + SLACK


def _last_written(path: str) -> float | None:
    if os.path.isfile(path):
        return os.path.getmtime(path)
    times = [os.path.getmtime(os.path.join(at, name)) for at, _, names in os.walk(path) for name in names]
    return max(times, default=None)
