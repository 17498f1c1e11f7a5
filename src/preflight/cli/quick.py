"""``preflight quick``: one line per script, and the exit code."""

from __future__ import annotations

from typing import Any

import click

from preflight.cli.parts.options import ScriptCommand, checking, output


@click.command("quick", cls=ScriptCommand)
@checking
@output
@click.pass_context
def command(context: click.Context, /, **given: Any) -> int:
    """Say GO, NO-GO or UNKNOWN in one line per script; the exit code says it too.

    With --format or -o, the whole report is written in that form.
    """
    from preflight.cli.parts.request import request
    from preflight.cli.parts.running import run
    from preflight.cli.parts.writing import EXIT_CODES, answer, put, remark, writing_of

    look = writing_of(given)
    done = run(request(context, given), look)
    report = done.report
    if look.format == "text":
        from preflight.check.many import NOT_READ
        from preflight.report.parts.clean import one_line
        from preflight.report.parts.sentences import quick_line

        lines = [quick_line(script) for script in report.scripts or (report,)]
        if report.verdict == "UNKNOWN" and report.notes and not report.scripts:
            lines = [f"{line}; {one_line(report.notes[0])}" for line in lines]
        put("\n".join(lines) + "\n", look)
        for note in report.notes:
            if note.startswith(NOT_READ):
                remark(note, look)
    else:
        answer(report, look, done.sources)
    return EXIT_CODES[report.verdict]
