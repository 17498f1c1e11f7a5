"""``preflight monitor check``: hold recorded runs against what must hold."""

from __future__ import annotations

from typing import Any

import click

from preflight.cli.parts.invariants import judging
from preflight.cli.parts.options import output


@click.command("check")
@click.argument("folders", nargs=-1, required=True, metavar="DIR...")
@judging
@output
def command(folders: tuple[str, ...], **given: Any) -> int:
    """Hold recorded runs against what must hold in them.

    DIR is a trace folder, of a run that has ended or that was killed; what a growing one holds so far is judged, too.
    """
    from preflight.check.files.source_lines import SourceLines
    from preflight.cli.parts.progress import following
    from preflight.cli.parts.recording import catalog
    from preflight.cli.parts.writing import EXIT_CODES, answer, writing_of
    from preflight.monitor.follow import Follower
    from preflight.monitor.library_of import in_force
    from preflight.monitor.outcome import report_of, together
    from preflight.monitor.trace.folder import TraceFolder

    look = writing_of(given)
    invariants = in_force(given["invariants"], catalog())
    followers = [Follower(TraceFolder(folder), invariants) for folder in folders]
    with following(look) as say:
        for follower in followers:
            follower.check(None if say is None else lambda done: say(f"{done:,} iterations judged"))
    report = together([report_of(one, invariants, "monitor check") for one in followers], "monitor check")
    answer(report, look, SourceLines())
    return EXIT_CODES[report.verdict]
