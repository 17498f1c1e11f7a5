"""A baseline: findings that are known and left for later, so that an old project can start clean.

What identifies a finding is its rule, its file and the text of its line, white space apart; so it stays known when
lines move, and is found again when its line changes. Of equal ones, as many are hidden as there were.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import msgspec

from preflight.check.files.source_lines import SourceLines
from preflight.errors import InputError
from preflight.vocabulary.finding import Finding

SCHEMA = "preflight.baseline/1"
Key = tuple[str, str, str]


class Entry(msgspec.Struct, frozen=True, order=True, forbid_unknown_fields=True):
    """Findings that are the same: code, rule, file relative to the baseline, text of the line, and how many."""

    path: str
    code: str
    rule: str
    line: str
    count: int = 1


class Baseline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file's content."""

    schema: str
    findings: tuple[Entry, ...] = ()


def read_baseline(path: str) -> Baseline:
    """Read a baseline file.

    Raises:
        InputError: It cannot be read, or is not a baseline of a known schema.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
        baseline = msgspec.json.decode(data, type=Baseline)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: is not a baseline: {error}", "--update-baseline writes it anew") from None
    if baseline.schema != SCHEMA:
        raise InputError(
            f"{path}: a baseline of schema {baseline.schema!r}",
            f"this version reads {SCHEMA!r}; --update-baseline writes it anew",
        )
    return baseline


def write_baseline(path: str, findings: Iterable[Finding], sources: SourceLines) -> int:
    """Write the findings as a baseline, sorted, so that it can be reviewed; return how many there are."""
    from preflight.check.files.text_file import write_whole

    counted: dict[Key, list[Finding]] = {}
    for finding in findings:
        counted.setdefault(_key(finding, path, sources), []).append(finding)
    entries = sorted(Entry(file, code, same[0].rule, line, len(same)) for (file, code, line), same in counted.items())
    content = msgspec.json.format(msgspec.json.encode(Baseline(SCHEMA, tuple(entries))), indent=1)
    write_whole(path, content + b"\n")
    return sum(len(same) for same in counted.values())


def without_known(findings: Sequence[Finding], baseline: Baseline, path: str, sources: SourceLines) -> list[Finding]:
    """The findings that a baseline does not know, in their order."""
    left = {(entry.path, entry.code, entry.line): entry.count for entry in baseline.findings}
    new: list[Finding] = []
    for finding in findings:
        key = _key(finding, path, sources)
        if left.get(key, 0) > 0:
            left[key] -= 1
        else:
            new.append(finding)
    return new


def _key(finding: Finding, baseline: str, sources: SourceLines) -> Key:
    """What identifies a finding; without a source line, its message stands for it, numbers left out."""
    at = finding.location
    line = sources.line(at)
    anchor = (
        " ".join(line.split())
        if line is not None and line.strip()
        else "".join(c for c in finding.message if not c.isdigit())
    )
    return _relative(at.path, baseline), finding.code, anchor


def _relative(path: str | None, baseline: str) -> str:
    if path is None or path.startswith("<"):
        return path or ""
    try:
        shown = os.path.relpath(path, os.path.dirname(os.path.abspath(baseline)))
    except ValueError:  # another drive
        shown = path
    return shown.replace(os.sep, "/")
