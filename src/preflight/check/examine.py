"""One file, from what was named to a judged report: read, checked, suppressed, selected."""

from __future__ import annotations

from pathlib import Path

import msgspec

from preflight.check.asked import Options
from preflight.check.files.discover import Found, mentions_training
from preflight.check.selection import LIBRARY_NOTE, MARK, Selection, visible
from preflight.check.session import check_script
from preflight.check.verdict import OTHER_FRAMEWORKS, framework_of, trains
from preflight.errors import InputError, PreflightError
from preflight.source.script import MAX_BYTES, Script, ScriptSyntaxError, parse, read_bytes
from preflight.vocabulary.finding import Finding, sort_key
from preflight.vocabulary.report import SCHEMA, NotEvaluated, Report, Tool
from preflight.vocabulary.version import VERSION

BROKEN_NOTE = "the file does not parse, so nothing else could be checked in it"


class Examined(msgspec.Struct, frozen=True):
    """What looking at one file gave.

    Attributes:
        report: The report, or None where there is nothing to say.
        trains: Whether a training was recognised in it.
        read: Whether it was checked, rather than passed over because it imports no library that trains.
        note: Why it could not be read, or None.
    """

    report: Report | None = None
    trains: bool = False
    read: bool = True
    note: str | None = None


def examine_script(script: Script, options: Options, selection: Selection) -> Report:
    """Check a parsed script and keep what its reader wants to see.

    Raises:
        UsageError: An option does not fit.
    """
    suppressed = 0

    def keep(findings: list[Finding], missing: list[NotEvaluated]) -> list[Finding]:
        nonlocal suppressed
        left = findings
        if MARK in script.text or any(finding.location.path != script.path for finding in findings):
            from preflight.check.files.suppress import apply_suppressions

            left, suppressed = apply_suppressions(script, findings, [item.code for item in missing])
        return sorted(visible(left, selection), key=sort_key)

    report = check_script(script, options, keep, selection.decides)
    if suppressed:
        return msgspec.structs.replace(report, inputs={**report.inputs, "suppressed": suppressed})
    return report


def examine_named(path: str, options: Options, selection: Selection) -> Report:
    """Check the one file that was named.

    Raises:
        InputError: It cannot be read or parsed.
    """
    return examine_script(parse(read_bytes(Path(path), path), path, Path(path)), options, selection)


def script_from_stdin(data: bytes) -> Script:
    """Parse standard input; its imports are looked up from the current folder.

    Raises:
        InputError: It is empty or cannot be parsed.
    """
    if not data.strip():
        raise InputError("standard input is empty", "pipe a script into it: preflight check - < train.py")
    book = data.lstrip()[:1] == b"{" and b'"cells"' in data
    return parse(data, "<stdin>.ipynb" if book else "<stdin>", Path.cwd() / "<stdin>")


def examine(found: Found, options: Options, selection: Selection) -> Examined:
    """Look at one file of several. What is wrong with this one file does not end the others.

    Raises:
        PreflightError: An option is wrong, or a file that was named itself is not a script.
    """
    try:
        data = read_bytes(Path(found.path), found.path)
        if not found.named and not mentions_training(data):
            _check_syntax(data, found.path)
            return Examined(read=False)
        report = examine_script(parse(data, found.path, Path(found.path)), options, selection)
    except ScriptSyntaxError as error:
        return Examined(_broken(error, found.path, data, selection))
    except InputError as error:
        if found.named:
            raise
        return Examined(read=False, note=str(error))
    except PreflightError:
        raise
    except Exception as error:  # an error of ours in one file; the others still deserve their answer
        if found.named:
            raise
        return Examined(_failed(error, found.path))
    return _placed(report, found.named)


def _placed(report: Report, named: bool) -> Examined:
    """Decide whether a file of a folder is worth a report of its own."""
    recognised = trains(report.facts)
    if named or recognised or framework_of(report.facts) in OTHER_FRAMEWORKS:
        return Examined(report, recognised)
    if not report.findings:
        return Examined()
    verdict = "GO" if report.verdict == "UNKNOWN" else report.verdict
    return Examined(msgspec.structs.replace(report, verdict=verdict, notes=(*report.notes, LIBRARY_NOTE)))


def _check_syntax(data: bytes, path: str) -> None:
    """Parse a file that nothing else is done with; a symbol table is the cheapest way to have the parser run."""
    if path.endswith(".ipynb"):
        return
    import symtable
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            symtable.symtable(data, path, "exec")  # type: ignore[arg-type]
    except (SyntaxError, ValueError, RecursionError, MemoryError, UnicodeDecodeError):
        if len(data) <= MAX_BYTES:
            parse(data, path)  # says where and what, in the words that are used everywhere


def _broken(error: ScriptSyntaxError, path: str, data: bytes, selection: Selection) -> Report | None:
    from preflight.check.notices.syntax_error import finding_for

    shown: list[Finding] = visible([finding_for(error, path, data)], selection)
    return _bare(path, shown) if shown else None


def _failed(error: Exception, path: str) -> Report:
    said = f"not checked: internal error {type(error).__name__}: {error}; please report it"
    return Report(
        schema=SCHEMA,
        command="check",
        tool=Tool("preflight", VERSION),
        verdict="UNKNOWN",
        inputs={"path": path},
        notes=(said,),
    )


def _bare(path: str, findings: list[Finding]) -> Report:
    return Report(
        schema=SCHEMA, command="check", tool=Tool("preflight", VERSION), verdict="NO-GO", inputs={"path": path},
        findings=tuple(findings), notes=(BROKEN_NOTE,),
    )  # fmt: skip
