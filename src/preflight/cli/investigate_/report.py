"""``preflight investigate report``: one incident as a page that can be passed around."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from preflight.cli.parts.options import output

if TYPE_CHECKING:
    from preflight.vocabulary.report import Report

_HELP = """Write an incident as a page, Markdown or JSON, without secrets.

PATH is what investigate reads, or the JSON that it wrote before.
Keys, tokens and passwords are taken out of every quoted line, and so are the names of people in paths.

\b
preflight investigate logs -o incident.json
preflight investigate report incident.json -o incident.html

Exit codes: those of the incident: 0 healthy, 1 failure found, 3 the logs do not tell; 2 misuse.
"""


@click.command("report", help=_HELP, short_help="Write an incident as a page, Markdown or JSON, without secrets.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...|REPORT.json")
@click.option(
    "--verification", metavar="FILE", help="What verify found, as JSON: whether the fix fixed it goes into the page."
)
@click.option(
    "--keep-paths", is_flag=True, help="Leave names of people in paths and addresses; secrets go all the same."
)
@click.option("--signatures", multiple=True, metavar="DIR", help="A folder with further signatures.")
@output
def command(paths: tuple[str, ...], **given: Any) -> int:
    """Write an incident as a page, Markdown or JSON, without secrets."""
    from preflight.check.files.source_lines import SourceLines
    from preflight.cli.parts.beside import incident_of
    from preflight.cli.parts.recording import catalog
    from preflight.cli.parts.writing import EXIT_CODES, answer, writing_of
    from preflight.investigate.redaction import redact

    look = writing_of({**given, "verbose": True})
    report = incident_of(paths, (*catalog(), *given["signatures"]))
    if given["verification"]:
        report = _verified(report, given["verification"])
    shown = redact(report, paths=not given["keep_paths"])
    answer(shown, look, SourceLines())
    return EXIT_CODES[shown.verdict]


def _verified(report: Report, path: str) -> Report:
    import msgspec

    from preflight.errors import UsageError
    from preflight.investigate.saved import saved_report

    saved = saved_report(path)
    if saved is None or saved.verification is None:
        raise UsageError(f"{path} is not what verify wrote", "preflight investigate verify ... --format json -o FILE")
    return msgspec.structs.replace(report, verification=saved.verification)
