"""How an answer leaves the program: in a format, to stdout or to a file, as a whole."""

from __future__ import annotations

import os
import sys
from typing import Any

import click
import msgspec

from preflight.check.files.source_lines import SourceLines
from preflight.errors import PreflightError, UsageError
from preflight.vocabulary.report import Report
from preflight.vocabulary.rule_info import RuleInfo

EXIT_CODES = {"GO": 0, "NO-GO": 1, "UNKNOWN": 3}


class Writing(msgspec.Struct, frozen=True, kw_only=True):
    """Where an answer goes and how it looks.

    Attributes:
        format: The name of a format.
        output: The file, or None for stdout.
        quiet: Whether remarks are left out.
        color: Whether colours may be used.
        width: Columns of text.
        verbose: Whether to list what is otherwise counted.
        rest: The option of this command that lists it.
    """

    format: str
    output: str | None = None
    quiet: bool = False
    color: bool = False
    width: int = 80
    verbose: bool = False
    rest: str = "--verbose"


def writing(
    format_: str | None, output: str | None, quiet: bool, no_color: bool, width: int | None, verbose: bool = False
) -> Writing:
    """Decide the format and the looks from the options, before any work is done.

    Raises:
        UsageError: The format does not exist, or no format belongs to the ending of the file.
    """
    from preflight.report.render import format_for, formats

    target = None if output in (None, "-") else output
    if format_ is None:
        format_ = "text"
        if target is not None and os.path.splitext(target)[1]:
            format_ = format_for(target) or ""
            if not format_:
                raise UsageError(f"-o {target}: no format belongs to this ending", "say which one: --format json")
    elif format_ not in formats():
        from preflight.errors import nearest

        near = nearest(format_, formats(), 0.6)
        raise UsageError(
            f"unknown format {format_!r}", f"did you mean {near}?" if near else f"one of {', '.join(formats())}"
        )
    if target is not None:
        _writable(target)
    terminal = target is None and _is_terminal(sys.stdout)
    return Writing(
        format=format_, output=target, quiet=quiet, width=width or (_columns() if terminal else 80), verbose=verbose,
        color=terminal and not no_color and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
    )  # fmt: skip


def writing_of(given: dict[str, Any]) -> Writing:
    """Decide the format and the looks from what a command with the options of ``output`` was given.

    Raises:
        UsageError: As ``writing`` does.
    """
    look = writing(
        given["format_"],
        given["output"],
        given["quiet"],
        given["no_color"],
        given["width"],
        given.get("verbose", False),
    )
    return look if "verbose" in given else msgspec.structs.replace(look, rest="--format json")


def _writable(target: str) -> None:
    folder = os.path.dirname(target) or "."
    if os.path.isdir(target):
        raise UsageError(f"-o {target}: is a folder", "name a file")
    if not os.path.isdir(folder):
        raise UsageError(f"-o {target}: there is no folder {folder}")


def _is_terminal(stream: object) -> bool:
    try:
        return bool(stream is not None and stream.isatty())  # type: ignore[attr-defined]
    except (ValueError, AttributeError):
        return False


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size((80, 24)).columns


def remark(text: str, writing: Writing) -> None:
    """Say something on stderr that is not the answer."""
    if not writing.quiet:
        from preflight.report.parts.clean import one_line

        click.echo(f"preflight: {one_line(text)}", err=True)


def answer(report: Report, writing: Writing, sources: SourceLines) -> None:
    """Write a report, and say in one line on stderr how it ended where the report went to a file.

    An incident is written without keys, tokens and passwords.
    """
    from preflight.cli.parts.run_folder import leave

    if report.incident is not None:  # its quotes are lines of logs, and those hold what programs print of themselves
        from preflight.investigate.redaction import redact

        report = redact(report, paths=False)
    put(rendered(report, writing, sources), writing)
    problem = leave(report)
    if problem is not None:
        remark(problem, writing)
    if writing.output is not None:
        from preflight.report.parts.sentences import quick_line

        remark(f"{quick_line(report)}; written to {writing.output}", writing)


def rendered(report: Report, writing: Writing, sources: SourceLines) -> str:
    """Return a report as text in the format that was asked for."""
    from preflight.report.render import render

    paths = dict.fromkeys(finding.location.path for finding in report.told if finding.location.path is not None)
    texts = {path: text for path in paths if (text := sources.text(path)) is not None}
    infos: tuple[RuleInfo, ...] = ()
    if report.watched is not None or report.violations:
        infos = _of_relations(report)
    elif report.incident is not None or report.plan is not None:
        infos = _of_signature(report)
    elif writing.format in ("sarif", "html"):
        from preflight.check.notices import rule_infos

        infos = rule_infos()
    return render(
        report, writing.format, width=writing.width, color=writing.color, symbols=_symbols(writing),
        verbose=writing.verbose, rest=writing.rest, sources=texts, rules=infos,
    )  # fmt: skip


def _of_relations(report: Report) -> tuple[RuleInfo, ...]:
    """What the invariants that were broken say of themselves."""
    from preflight.monitor.relation import relations

    known = relations()
    return tuple(
        RuleInfo(
            code=one.code, name=one.rule, title=known[one.rule].title(), page=_page(known[one.rule]),
            severity=one.severity, confidence=one.confidence, persona="regular", tags=("monitor",),
        )
        for one in {violation.code: violation for violation in report.violations}.values()
        if one.rule in known
    )  # fmt: skip


def _of_signature(report: Report) -> tuple[RuleInfo, ...]:
    """What the signature of an incident says of itself, with the page of ``explain``."""
    from preflight.cli.parts.signature_pages import is_signature, signature_markdown
    from preflight.report.parts.results import code_of

    if report.incident is None or not is_signature(name := code_of(report.incident)):
        return ()
    page = signature_markdown(name)
    title = report.incident.headline.partition(": ")[2] or report.incident.headline
    return (
        RuleInfo(
            code=name, name=name, title=title, page=page, severity="error", confidence="likely", tags=("incident",)
        ),
    )


def _page(kind: type) -> str:
    """The docstring of a class as it is read."""
    from inspect import getdoc

    return getdoc(kind) or ""


def put(text: str, writing: Writing) -> None:
    """Write a text to the file or to stdout.

    Raises:
        PreflightError: It cannot be written.
    """
    if writing.output is not None:
        from preflight.check.files.text_file import write_whole

        write_whole(writing.output, text.encode("utf-8", "backslashreplace"))
        return
    try:
        try:
            click.echo(text, nl=False, color=writing.color)
        except UnicodeEncodeError:
            encoding = getattr(sys.stdout, "encoding", None) or "ascii"
            click.echo(text.encode(encoding, "backslashreplace").decode(encoding), nl=False, color=writing.color)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough (head, less); the verdict is known and is still the exit code.
        from preflight.cli.main import silence_stdout

        silence_stdout()
    except OSError as error:
        from preflight.cli.main import silence_stdout

        silence_stdout()
        raise PreflightError(f"the answer cannot be written: {error.strerror or error}") from None


def _symbols(writing: Writing) -> bool:
    if writing.output is not None:
        return True
    encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "")
    return encoding.startswith("utf")
