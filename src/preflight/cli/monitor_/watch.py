"""``preflight monitor watch``: watch a run that was started elsewhere."""

from __future__ import annotations

from typing import Any

import click

from preflight.cli.parts.invariants import judging
from preflight.cli.parts.live import telling
from preflight.cli.parts.options import output


@click.command("watch")
@click.argument("folder", metavar="DIR")
@judging
@telling
@output
def command(folder: str, **given: Any) -> int:
    """Watch a trace that grows, until its run ends; then report on it.

    The run goes on elsewhere: under monitor collect, or on another machine that writes to a shared folder. Alarms go to
    stderr when they begin, the report to stdout at the end.
    """
    import time

    from preflight.check.files.source_lines import SourceLines
    from preflight.cli.parts.live import EVERY, Live, colored, remark, told_of
    from preflight.cli.parts.recording import catalog
    from preflight.cli.parts.writing import EXIT_CODES, answer, writing_of
    from preflight.monitor.follow import Follower, run_has_ended
    from preflight.monitor.library_of import in_force
    from preflight.monitor.outcome import report_of
    from preflight.monitor.trace.folder import TraceFolder

    look = writing_of(given)
    invariants = in_force(given["invariants"], catalog())
    live = Live(Follower(TraceFolder(folder), invariants), told_of(given, folder), colored(given["no_color"]))
    while not run_has_ended(live.follower):
        live.look()
        time.sleep(EVERY)
    live.look(ended=True)
    for problem in live.close():
        remark(problem)
    report = report_of(live.follower, invariants, "monitor watch")
    answer(report, look, SourceLines())
    return EXIT_CODES[report.verdict]
