"""``preflight investigate``: from the logs of a run to what happened, who began it, why, and what to do."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from preflight.cli.parts.grouped import GroupedCommand, WithDefault
from preflight.cli.parts.options import output
from preflight.errors import UsageError, nearest

if TYPE_CHECKING:
    from preflight.cli.parts.writing import Writing
    from preflight.vocabulary.report import Report

_A_SLIP = 0.7
"""The least likeness of a word that was meant as a subcommand; a file that is not there is one otherwise."""


@click.command("investigate", cls=GroupedCommand)
@click.argument("paths", nargs=-1, metavar="PATH...|-")
@click.option("--follow", is_flag=True, help="Read on while the logs grow; tell once when something fails.")
@click.option("--signatures", multiple=True, metavar="DIR", help="A folder with further signatures.")
@click.option(
    "--engine", type=click.Choice(["local", "ray"]), default="local", show_default=True, help="What reads many files."
)
@click.option(
    "--script",
    metavar="FILE",
    help="The script that failed: say also what preflight check finds in it of this failure.",
)
@click.option("--invariants", multiple=True, metavar="FILE", help="What traces among PATH are held against.")
@click.option(
    "--draft", metavar="DIR", help="Write drafts of signatures and invariants that would tell it the next time."
)
@output
@click.option("-v", "--verbose", is_flag=True, help="Everything that was considered, with its lines.")
def investigate(paths: tuple[str, ...], **given: Any) -> int:
    """Say of a run what happened, which rank and node began it, when, why, and what to do.

    PATH is a log, a folder of logs in any layout, an archive of them, or - for standard input; dumps of the Flight
    Recorder, kernel logs, stacks, what schedulers say and metric files are read where they lie beside the logs.
    What Preflight told of the same run counts, too: a trace, alarms (--alerts) or a report given as PATH, and the
    reports in .preflight.

    Exit codes: 0 healthy, 1 failure found, 2 misuse, 3 the logs do not tell.
    """
    from preflight.check.files.source_lines import SourceLines
    from preflight.cli.parts.beside import investigated, sorted_out, with_reports
    from preflight.cli.parts.drafts import write_drafts
    from preflight.cli.parts.recording import catalog
    from preflight.cli.parts.writing import EXIT_CODES, answer, remark, writing_of

    look = writing_of(given)
    if not paths:
        raise UsageError("nothing to investigate is given", "name log files, folders or archives; - is standard input")
    if not os.path.lexists(paths[0]) and paths[0].isidentifier():
        near = nearest(paths[0], command.list_commands(click.get_current_context()), _A_SLIP)
        if near:
            raise UsageError(
                f"{paths[0]}: neither a file nor a subcommand", f"did you mean preflight investigate {near}?"
            )
    for folder in given["signatures"]:
        _holds_signatures(folder)
    signatures = (*catalog(), *given["signatures"])
    beside = sorted_out(paths, given["invariants"])
    if given["invariants"] and not beside.traces:
        remark(f"--invariants {given['invariants'][0]} judges nothing: no trace is among what was given", look)
    if given["follow"]:
        report = _followed(beside.logs or paths, signatures, look)
    else:
        report = investigated(paths, beside, signatures, given["engine"])
    if given["script"] is not None:
        report = _beside(report, given["script"])
    report = with_reports(report, beside, script_given=given["script"] is not None)
    if given["draft"] is not None:
        written = write_drafts(report, given["draft"])
        for path in written:
            remark(f"a draft is written to {path}", look)
        if not written:
            remark("nothing is drafted: what would tell it is there already, or no line says what happened", look)
    answer(report, look, SourceLines())
    return EXIT_CODES[report.verdict]


def _holds_signatures(folder: str) -> None:
    """Refuse a folder that adds no signature: named wrongly, it would change nothing, and nobody would know."""
    from preflight.catalog.signature_files import KIND, listed
    from preflight.investigate.paths import there

    there(folder)
    if not os.path.isdir(folder):
        raise UsageError(f"--signatures {folder}: is a file", f"name the folder that holds {KIND}/FAMILY/NAME.toml")
    if next(listed(os.path.join(folder, KIND)), None) is not None:
        return
    inside = os.path.basename(os.path.abspath(folder)) == KIND and next(listed(folder), None) is not None
    raise UsageError(
        f"--signatures {folder}: there is no {KIND}/FAMILY/NAME.toml in it",
        f"did you mean {os.path.normpath(os.path.join(folder, os.pardir))}?"
        if inside
        else "--draft DIR writes such a folder",
    )


def _beside(report: Report, script: str) -> Report:
    """Check the script, on a card of the size that the logs tell, and put beside the incident what is found."""
    from pathlib import Path

    from preflight.check.asked import Options
    from preflight.check.session import check_script
    from preflight.cli.parts.recording import catalog
    from preflight.investigate.beside.foreseen import capacity_of, sold_as, with_check
    from preflight.source.script import read_script

    read = read_script(Path(script))
    if report.incident is None:
        return report
    capacity = capacity_of(report.incident)
    options = Options(gpu_memory=sold_as(capacity) if capacity is not None else None, catalog=catalog())
    return with_check(report, check_script(read, options), script)


def _followed(paths: tuple[str, ...], signatures: tuple[str, ...], look: Writing) -> Report:
    """Follow logs that grow, and say at once on stderr when something fails."""
    from preflight.investigate.follow import follow
    from preflight.report.parts.sentences import quick_line

    if "-" in paths:
        raise UsageError("standard input cannot be followed", "name the files or the folder that grow")

    def alarm(report: Report) -> None:
        click.echo(f"preflight: {quick_line(report)}", err=True)

    return follow(paths, signatures, alarm=alarm)


command = WithDefault("investigate", "preflight.cli.investigate_", investigate)
