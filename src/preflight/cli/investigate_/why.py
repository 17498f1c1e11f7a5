"""``preflight investigate why``: the chain of causes of an incident, and what a person adds to it."""

from __future__ import annotations

from typing import Any

import click

from preflight.cli.parts.options import output
from preflight.errors import UsageError


@click.command("why")
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option("--add", multiple=True, metavar="ANSWER", help="What you know: the answer to the question that is open.")
@click.option("--ask", is_flag=True, help="Ask for answers until an empty one.")
@click.option("--signatures", multiple=True, metavar="DIR", help="A folder with further signatures.")
@output
def command(paths: tuple[str, ...], **given: Any) -> int:
    """Show why it happened: level by level, what is observed, what is inferred, and where nobody knows further.

    PATH is what preflight investigate reads, or the JSON report that it wrote: -o why.json keeps what was added.

    Exit codes: those of the incident: 0 healthy, 1 failure found, 3 the logs do not tell; 2 misuse.
    """
    from preflight.check.files.source_lines import SourceLines
    from preflight.cli.parts.beside import incident_of
    from preflight.cli.parts.recording import catalog
    from preflight.cli.parts.writing import EXIT_CODES, answer, writing_of
    from preflight.investigate.why import explained

    look = writing_of(given)
    if not paths:
        raise UsageError("nothing to explain is given", "name the logs, or a report of preflight investigate")
    report = explained(incident_of(paths, (*catalog(), *given["signatures"])), given["add"])
    while given["ask"]:
        whys = report.incident.five_whys if report.incident is not None else ()
        question = whys[-1].question if whys else "Why did it happen?"
        said = click.prompt(question, default="", show_default=False, err=True).strip()
        if not said:
            break
        report = explained(report, (said,))
    answer(report, look, SourceLines())
    return EXIT_CODES[report.verdict]
