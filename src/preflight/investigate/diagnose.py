"""The diagnosis: from what was read to what happened, who began it, why, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from preflight.errors import UsageError
from preflight.investigate.answers import Facts
from preflight.investigate.course.shown import left_slower
from preflight.investigate.jobs import judged_by_job
from preflight.investigate.paths import there
from preflight.investigate.trees import walk
from preflight.vocabulary.incident import Incident
from preflight.vocabulary.log import Reading
from preflight.vocabulary.report import SCHEMA, Report, Tool, Verdict
from preflight.vocabulary.signature import Signature
from preflight.vocabulary.version import VERSION

# So many files are named in a remark.
_NAMED = 5


def diagnose(
    paths: str | Path | Sequence[str | Path],
    *,
    signatures: Sequence[str | Path] = (),
    engine: Literal["local", "ray"] = "local",
    stdin: bytes | None = None,
) -> Report:
    """Read the logs of a run and say what happened, who began it, why, and what to do.

    Args:
        paths: Files, folders, globs, archives; ``-`` is standard input.
        signatures: Folders with further signatures.
        engine: ``local`` or ``ray``.
        stdin: What ``-`` stands for; the process's own standard input where it is None.

    Returns:
        The report that ``preflight investigate`` shows.

    Raises:
        UsageError: No path is given.
        InputError: A path is not there.
    """
    from preflight.catalog.signature_files import load_signatures
    from preflight.source.logs import read_logs

    given = [paths] if isinstance(paths, (str, Path)) else list(paths)
    if not given:
        raise UsageError("nothing to investigate is given", "name log files, folders or archives; - is standard input")
    for path in given:
        there(str(path))
    known = load_signatures(tuple(Path(folder) for folder in signatures))
    reading = read_logs(given, known, engine=engine, stdin=stdin)
    return report_of(reading, known, [str(path) for path in given])


def report_of(reading: Reading, signatures: Iterable[Signature], paths: Sequence[str]) -> Report:
    """Return the report of a reading."""
    incident = judged_by_job(reading, signatures)
    problems = [f"{file.path}: {file.problem}" for file in reading.files if file.problem]
    inputs = {
        "bytes": reading.bytes_read,
        "files": len(reading.files),
        "lines": reading.lines_read,
        "paths": list(paths),
    }
    return Report(
        schema=SCHEMA,
        command="investigate",
        tool=Tool("preflight", VERSION),
        verdict=verdict_of(incident),
        inputs=inputs,
        incident=incident,
        walk=walk(Facts(incident=incident, reading=reading)),
        notes=(*reading.notes, *problems, *_not_read(reading)),
    )


def _not_read(reading: Reading) -> Iterator[str]:
    """Yield what was passed over."""
    for kind, said in (
        ("binary", "neither text nor a dump that is known, not read"),
        ("program", "programs or settings and no logs, not read; --script FILE checks one"),
        ("empty", "empty"),
    ):
        paths = [file.path for file in reading.files if file.kind == kind and not file.problem]
        if paths:
            more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
            yield f"{', '.join(paths[:_NAMED])}{more}: {said}"


def verdict_of(incident: Incident) -> Verdict:
    """Return GO for a healthy run, NO-GO for a failure, UNKNOWN where the logs do not tell.

    Steps that are slower for good without a word of why are neither: a longer sequence is as likely as a fault.
    """
    calm = incident.category in ("none", "cannot-tell")
    if calm and incident.state == "unknown":
        return "UNKNOWN"
    if incident.category == "none" and incident.state == "slow" and left_slower(incident.series):
        return "UNKNOWN"
    return "GO" if incident.category == "none" else "NO-GO"
