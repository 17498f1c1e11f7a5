"""``preflight monitor run``: record a program and watch it."""

from __future__ import annotations

import subprocess
from typing import Any

import click

from preflight.cli.parts.live import telling
from preflight.cli.parts.recording import ProgramCommand, recording


@click.command("run", cls=ProgramCommand)
@recording
@click.option(
    "--on-violation",
    type=click.Choice(["warn", "checkpoint", "stop"]),
    default="warn",
    show_default=True,
    help="What is done at the first error: only say it; let every rank save its state; end the program.",
)
@click.option("--no-check", is_flag=True, help="Do not read the program's text beside, as preflight check does.")
@telling
@click.pass_context
def command(context: click.Context, /, **given: Any) -> int:
    """Record a training program and watch it while it runs: what must hold, and since when it does not.

    Alarms go to stderr; where the run shows no error, those go there that preflight check finds in the program's text.
    The exit code is the program's own; 1 where that is 0 and something was found that makes the training wrong.

    With --on-violation stop, every rank sends itself SIGTERM at the end of the same iteration: the program's own
    handler runs where it has one, else it ends with 143. With checkpoint, every rank saves models, optimizers, schedules,
    scalers and random states at the end of the same iteration, below the trace folder; preflight.resume goes on from it.
    """
    from preflight.cli.parts.live import EVERY, Live, closing, colored, remark, told_of
    from preflight.cli.parts.recording import Session
    from preflight.cli.parts.run_folder import leave
    from preflight.cli.parts.text_beside import TextBeside
    from preflight.monitor.follow import Follower
    from preflight.monitor.live.control import Asking
    from preflight.monitor.outcome import report_of
    from preflight.monitor.trace.folder import TraceFolder

    wanted = given["on_violation"]
    told = told_of(given)
    session = Session(context, given, control=wanted != "warn")
    asking = Asking(session.folder) if wanted != "warn" else None
    for one in told:
        one.run = str(session.folder)
    text = TextBeside(() if given["no_check"] else session.command)
    live: list[Live] = []
    failed: list[Exception] = []

    def watch(process: subprocess.Popen[bytes]) -> None:
        try:
            judge(process)
        except Exception as error:  # whatever becomes of the judging, the program goes on to an end of its own
            failed.append(error)
            remark(f"nothing is judged from here on: {_told(error)}")

    def judge(process: subprocess.Popen[bytes]) -> None:
        follower = Follower(TraceFolder(session.folder), session.invariants)
        live.append(Live(follower, told, colored(given["no_color"]), asking, wanted))
        while True:
            try:
                process.wait(EVERY)
            except subprocess.TimeoutExpired:
                live[0].look()
                text.look(live[0].alarmed)
                continue
            break
        live[0].look(ended=True)

    try:
        code = session.go(watch)
        text.close(any(one.alarmed for one in live))
    finally:
        text.drop()
    if asking is not None and (said := asking.close()) is not None:
        remark(said)
    for problem in [problem for one in live for problem in one.close()]:
        remark(problem)
    nothing = session.nothing()
    if nothing is not None:
        remark(f"nothing was recorded: {nothing}")
    if nothing is not None or failed:
        return code
    live[0].follower.folder.refresh()
    report = text.added_to(report_of(live[0].follower, session.invariants, "monitor run"))
    unsealed = session.seal()
    if unsealed is not None:
        remark(f"the trace is not sealed: {unsealed}")
    closing(report, str(session.folder), given["quiet"])
    left = leave(report)
    if left is not None:
        remark(left)
    return 1 if code == 0 and report.verdict == "NO-GO" else code


def _told(error: Exception) -> str:
    """What ended the judging, with a word to those who made it where nobody foresaw that."""
    import os

    from preflight.errors import PreflightError
    from preflight.monitor.live.remarks import reason_of

    if isinstance(error, PreflightError):
        return str(error)
    if os.environ.get("PREFLIGHT_TRACEBACK"):
        import traceback

        traceback.print_exception(error)
    return f"internal error: {reason_of(error)}; please report it, PREFLIGHT_TRACEBACK=1 shows where it comes from"
