"""``preflight investigate hang``: who is waited for in a job that hangs."""

from __future__ import annotations

from typing import Any

import click

from preflight.cli.parts.options import output

_HELP = """Look at the ranks of a job that hangs, and say who does otherwise than the others.

Without a word it finds the ranks of the largest job on this node by the variables of their launcher, and takes the stacks of
each twice. PID is a process, or the launcher that started the ranks. FILE is a file or a folder with
stacks (py-spy, faulthandler, pystack, gdb) or dumps of the Flight Recorder of all ranks.

\b
preflight investigate hang
preflight investigate hang 4711
preflight investigate hang stacks/

Exit codes: 0 the job runs, 1 it hangs, 2 misuse, 3 it cannot be told.
"""


@click.command(
    "hang", help=_HELP, short_help="Look at the ranks of a job that hangs, and say who does otherwise than the others."
)
@click.argument("targets", nargs=-1, metavar="[PID...|FILE...]")
@click.option("--deadline", type=click.FloatRange(min=1.0), default=30.0, show_default=True, metavar="SECONDS",
              help="For everything together.")  # fmt: skip
@click.option("--between", type=click.FloatRange(min=0.0), default=1.0, show_default=True, metavar="SECONDS",
              help="Between the two looks: a rank that moves meanwhile does not hang.")  # fmt: skip
@click.option("--signal", "signal_", metavar="NAME",
              help="Where py-spy may not look: the signal on which the program prints its stacks (faulthandler.register).")  # fmt: skip
@output
@click.option("-v", "--verbose", is_flag=True, help="Every group of stacks and every rank.")
def command(targets: tuple[str, ...], **given: Any) -> int:
    """Look at the ranks of a job that hangs, and say who does otherwise than the others."""
    from preflight.check.files.source_lines import SourceLines
    from preflight.cli.parts.writing import EXIT_CODES, answer, writing_of
    from preflight.errors import UsageError
    from preflight.investigate.hang.judge import judge
    from preflight.investigate.hang.look import look_at, look_in
    from preflight.investigate.hang.told import report_of

    look = writing_of(given)
    numbers = [target for target in targets if target.isdigit()]
    if numbers and len(numbers) < len(targets):
        raise UsageError("processes and files together", "name the ones or the others")
    if targets and not numbers:
        seen = look_in(targets)
    else:
        number = _signal(given["signal_"])
        seen = look_at(
            [int(one) for one in numbers], seconds=given["deadline"], between=given["between"], number=number
        )
    report = report_of(judge(seen), seen, targets, verbose=given["verbose"])
    answer(report, look, SourceLines())
    return EXIT_CODES[report.verdict]


def _signal(name: str | None) -> int | None:
    import signal

    from preflight.errors import UsageError

    if name is None:
        return None
    word = name.upper() if name.upper().startswith("SIG") else f"SIG{name.upper()}"
    try:
        return int(signal.Signals[word] if not name.isdigit() else signal.Signals(int(name)))
    except (KeyError, ValueError) as error:
        raise UsageError(f"--signal {name}: there is no such signal", "USR1, for example") from error
