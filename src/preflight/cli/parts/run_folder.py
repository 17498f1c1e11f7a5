"""The folder of a run, ``.preflight``: where commands leave their reports, so that one page can tell of all of them.

Commands leave nothing unless the folder is there, or ``PREFLIGHT_RUN`` names one.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from preflight.vocabulary.report import Report, Stage

FOLDER = ".preflight"
VARIABLE = "PREFLIGHT_RUN"
KEPT = 200
"""So many reports of a run are kept; the oldest go first."""
_REPORTS = "reports"
_NAME = re.compile(r"(\d{4,})-[a-z-]+\.json")
_SCHEMA = "preflight.stage/1"
_NOT_LEFT = ("report", "diff")
"""Commands whose reports are made of other reports."""


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    schema: str
    time: float
    words: tuple[str, ...]
    report: msgspec.Raw


def folder() -> Path | None:
    """Return the folder of the run that is in hand, or None where there is none."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    return Path(FOLDER) if os.path.isdir(FOLDER) else None


def begin(where: Path) -> None:
    """Make the folder of a run; version control leaves it alone.

    Raises:
        OSError: It cannot be made.
    """
    (where / _REPORTS).mkdir(parents=True, exist_ok=True)
    ignore = where / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")


def leave(report: Report) -> str | None:
    """Leave a report in the folder of the run, where there is one, with the command line in hand.

    Returns:
        Why it could not be left, where it could not.
    """
    where = folder()
    if where is None or report.command in _NOT_LEFT:
        return None
    import click

    from preflight.investigate.redaction import redact_words
    from preflight.report.json import render
    from preflight.report.parts.options import Options

    context = click.get_current_context(silent=True)
    given: tuple[str, ...] = (context.obj or ()) if context is not None else ()
    # Names of files need not be text that can be written.
    words = tuple(word.encode("utf-8", "replace").decode() for word in redact_words(given))
    try:
        begin(where)
        raw = msgspec.Raw(msgspec.json.format(render(report, Options()).encode(), indent=0))
        entry = msgspec.json.encode(_Entry(schema=_SCHEMA, time=round(time.time(), 3), words=words, report=raw))
        _put(where / _REPORTS, report.command.replace(" ", "-"), entry)
    except (OSError, ValueError) as error:
        return f"the report is not left in {where}: {getattr(error, 'strerror', None) or error}"
    return None


def _put(reports: Path, command: str, entry: bytes) -> None:
    """Write the entry under the next free number. Two commands at once take two numbers."""
    have = sorted(int(found[1]) for name in os.listdir(reports) if (found := _NAME.fullmatch(name)))
    number = have[-1] + 1 if have else 1
    while not _written(reports, f"{number:04d}-{command}.json", entry):
        number += 1
    for name in os.listdir(reports):
        found = _NAME.fullmatch(name)
        if found and int(found[1]) <= number - KEPT:
            (reports / name).unlink(missing_ok=True)


def _written(reports: Path, name: str, entry: bytes) -> bool:
    """Write an entry whole or not at all, and never over another one; False where there is one of the name."""
    handle, unfinished = tempfile.mkstemp(prefix=".", suffix=".unfinished", dir=reports)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(entry)
        try:
            os.link(unfinished, reports / name)
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links
            if (reports / name).exists():
                return False
            os.replace(unfinished, reports / name)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(unfinished)
    return True


def stages(where: Path) -> tuple[list[Stage], list[str]]:
    """Return the reports of a run in the order in which they were made, and what of them cannot be read."""
    from preflight.errors import InputError
    from preflight.report.json import from_json

    found: list[Stage] = []
    problems: list[str] = []
    reports = where / _REPORTS
    for name in sorted(os.listdir(reports)) if reports.is_dir() else ():
        number = _NAME.fullmatch(name)
        if number is None:
            continue
        try:
            entry = msgspec.json.decode((reports / name).read_bytes(), type=_Entry)
            if entry.schema != _SCHEMA:
                raise InputError(f"schema {entry.schema!r}, this version reads {_SCHEMA!r}")
            found.append(
                Stage(number=int(number[1]), time=entry.time, words=entry.words, report=from_json(bytes(entry.report)))
            )
        except (OSError, msgspec.DecodeError, RecursionError, InputError) as error:
            problems.append(f"{reports / name} cannot be read: {error}")
    return sorted(found, key=lambda stage: stage.number), problems
