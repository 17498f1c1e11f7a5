"""``preflight investigate report``: one incident as a page that can be passed around."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from preflight.cli.parts.options import output

if TYPE_CHECKING:
    from preflight.vocabulary.report import Report


@click.command("report")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...|REPORT.json")
@click.option(
    "--verification", metavar="FILE", help="What verify found, as JSON: whether the fix fixed it goes into the page."
)
@click.option(
    "--keep-paths", is_flag=True, help="Leave names of people in paths and addresses; secrets go all the same."
)
@output
def command(paths: tuple[str, ...], **given: Any) -> int:
    r"""Write an incident as a page, Markdown or JSON, without secrets.

    PATH is what investigate reads, or the JSON that it wrote before.
    Keys, tokens and passwords are taken out of every quoted line, and so are the names of people in paths.

    \b
    preflight investigate logs -o incident.json
    preflight investigate report incident.json -o incident.html
    """
    from preflight.check.source_lines import SourceLines
    from preflight.cli.parts.writing import EXIT_CODES, answer, writing
    from preflight.investigate.redaction import redact

    look = writing(given["format_"], given["output"], given["quiet"], given["no_color"], given["width"], True)
    report = _report(paths)
    if given["verification"]:
        report = _verified(report, given["verification"])
    shown = redact(report, paths=not given["keep_paths"])
    answer(shown, look, SourceLines())
    return EXIT_CODES[shown.verdict]


def _report(paths: tuple[str, ...]) -> Report:
    from preflight.cli.parts.incidents import saved_report

    if len(paths) == 1 and paths[0].endswith(".json"):
        saved = saved_report(paths[0])
        if saved is not None:
            return saved
    from preflight.investigate.diagnose import diagnose

    return diagnose(list(paths))


def _verified(report: Report, path: str) -> Report:
    import msgspec

    from preflight.cli.parts.incidents import saved_report
    from preflight.errors import UsageError

    saved = saved_report(path)
    if saved is None or saved.verification is None:
        raise UsageError(f"{path} is not what verify wrote", "preflight investigate verify ... --format json -o FILE")
    return msgspec.structs.replace(report, verification=saved.verification)
