"""``preflight monitor collect``: record a program."""

from __future__ import annotations

import subprocess
from typing import Any

import click

from preflight.cli.parts.recording import ProgramCommand, recording


@click.command("collect", cls=ProgramCommand)
@recording
@click.pass_context
def command(context: click.Context, /, **given: Any) -> int:
    """Record a training program, to learn from it or to check it later.

    The program is started as it is, with its own interpreter; its output, signals and exit code stay its own, and the
    exit code of this command is the program's.
    """
    from preflight.cli.parts.live import remark
    from preflight.cli.parts.recording import Session

    session = Session(context, given)

    def wait(process: subprocess.Popen[bytes]) -> None:
        process.wait()

    code = session.go(wait)
    nothing = session.nothing()
    if nothing is not None:
        remark(f"nothing was recorded: {nothing}")
        return code
    problem = session.seal()
    if problem is not None and not given["quiet"]:
        remark(f"the trace is not sealed: {problem}")
    if not given["quiet"]:
        remark(f"the trace is in {session.folder}")
    return code
