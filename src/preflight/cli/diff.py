"""``preflight diff``: what changed from one script, plan or run to another."""

from __future__ import annotations

from typing import Any

import click

from preflight.cli.parts.options import SCRIPT_ARGUMENTS, ScriptCommand, output, placed


@click.command("diff", cls=ScriptCommand)
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@placed
@click.option("--dry-run", is_flag=True, help="Run both scripts, guarded, on a virtual GPU. Executes their code.")
@output
@click.option("-v", "--verbose", is_flag=True, help="List what the text otherwise only counts.")
@click.pass_context
def command(context: click.Context, /, before: str, after: str, **given: Any) -> int:
    """Say what changed from A to B: memory, time, cost, settings, and which findings came and went.

    A and B are two scripts or folders of scripts, two settings of plans (YAML) or configurations of models
    (config.json), two traces of watched runs, the logs of two runs, or reports that were written with -o X.json.
    Two of different kinds are compared in what both tell of: a script and a plan in their memory.

    Exit codes: 0 not worse; 1 B has an error that A has not, or a worse verdict; 3 nothing in common.
    """
    from preflight.check.files.source_lines import SourceLines
    from preflight.cli.parts.sides import report_of
    from preflight.cli.parts.writing import EXIT_CODES, answer, writing_of
    from preflight.compare.reports import compare

    look = writing_of(given)
    given["arguments"] = context.meta.get(SCRIPT_ARGUMENTS)
    report = compare(report_of(before, given), report_of(after, given), (before, after))
    answer(report, look, SourceLines())
    return EXIT_CODES[report.verdict]
