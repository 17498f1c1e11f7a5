"""``preflight investigate events``: what goes together with failures."""

from __future__ import annotations

from typing import Any

import click

from preflight.cli.parts.options import output

_HELP = """Say what goes together with failures: events before them, nodes, versions, lines of logs; never what causes them.

\b
preflight investigate events training_events.jsonl
preflight investigate events --jobs jobs.csv
preflight investigate events --jobs good-1/ --jobs good-2/ --jobs bad-1/ ...

PATH is a file that preflight.EventLogger wrote, or a folder of such.
Under five failures nothing is said.

Exit codes: 0 nothing is associated, 1 something is, 2 misuse, 3 not enough data.
"""


@click.command("events", help=_HELP, short_help="Say what goes together with failures.")
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option(
    "--jobs",
    multiple=True,
    metavar="PATH",
    help="A table of jobs (CSV, JSON) with outcome and nodes, or the logs of one job.",
)
@click.option(
    "--window",
    "windows",
    multiple=True,
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="How long after an event a failure counts (default: 300 and 1800).",
)
@click.option(
    "--seed",
    type=int,
    metavar="N",
    default=0,
    show_default=True,
    help="Of the random turns of the failures against the events.",
)
@output
def command(paths: tuple[str, ...], **given: Any) -> int:
    """Say what goes together with failures."""  # fmt: skip
    from preflight.check.files.source_lines import SourceLines
    from preflight.cli.parts.writing import EXIT_CODES, answer, writing_of
    from preflight.errors import UsageError
    from preflight.investigate.events.analysis import analyse, report_of
    from preflight.investigate.events.precursors import WINDOWS
    from preflight.investigate.events.reading import read_events, read_jobs

    look = writing_of(given)
    if not paths and not given["jobs"]:
        raise UsageError("nothing to analyse is given", "name files of events, or jobs with --jobs")
    events, notes = read_events(paths)
    jobs, uncounted = read_jobs(given["jobs"])
    found = analyse(events, jobs, windows=given["windows"] or WINDOWS, seed=given["seed"])
    report = report_of(found, {"paths": [*paths, *given["jobs"]]})
    if notes or uncounted:
        import msgspec

        report = msgspec.structs.replace(report, notes=(*report.notes, *notes, *uncounted))
    answer(report, look, SourceLines())
    return EXIT_CODES[report.verdict]
