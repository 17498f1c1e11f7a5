"""``preflight check``: the report of scripts, folders, notebooks or standard input."""

from __future__ import annotations

from typing import Any

import click

from preflight.cli.parts.options import OF_A_DRY_RUN, ScriptCommand, checking, output
from preflight.errors import UsageError


@click.command("check", cls=ScriptCommand)
@checking
@click.option("--plan", metavar="FILE", help="What 'preflight plan -o plan.json' wrote: where does the script differ?")
@click.option("--diff", is_flag=True, help="Print the safe fixes as a patch; with --unsafe-fixes, all of them.")
@click.option("--fix", is_flag=True, help="Apply the safe fixes, then report what remains.")
@click.option("--unsafe-fixes", is_flag=True, help="Apply also fixes that may change what the training computes.")
@click.option(
    "--dry-run", is_flag=True, help="Run the script, guarded, on a virtual GPU: exact memory. Executes its code."
)
@click.option("--steps", type=click.IntRange(min=2), metavar="N", help="Optimizer steps of a dry run (default 3).")
@click.option("--batch", metavar="SPEC", help="A batch where data are missing: 'x: float32[8,3,224,224], y: int64[8]'.")
@click.option("--assume", multiple=True, metavar="MODEL=CONFIG", help="The config.json of a model in a dry run.")
@click.option("--python", metavar="EXE", help="The Python with the script's packages, for a dry run.")
@click.option("--no-probe", is_flag=True, help="Leave out the short run on the CPU that follows a dry run.")
@click.option("--time-limit", type=click.FloatRange(min=1), metavar="S", help="Seconds for a dry run (default 300).")
@click.option(
    "--what-fits/--no-what-fits",
    default=None,
    help="Run again with changes: what each saves, and the largest batch. Without either, where the GPU is full.",
)
@click.option("--memory-snapshot", metavar="FILE", help="Write a dry run's memory for PyTorch's visualiser.")
@click.option("--expectations", metavar="FILE", help="Write what a dry run saw, for preflight monitor --invariants.")
@click.option("--chrome-trace", metavar="FILE", help="Write a dry run's estimated step for chrome://tracing.")
@output
@click.option("-v", "--verbose", is_flag=True, help="List what the text otherwise only counts.")
@click.pass_context
def command(context: click.Context, /, diff: bool, fix: bool, unsafe_fixes: bool, **given: Any) -> int:
    """Say whether training scripts will train, and where, why and what to change if not.

    PATH is a script, a notebook, a folder, a quoted pattern such as 'src/**/*.py', or - for standard input.
    Nothing of a script is imported or run, but for --dry-run.
    """
    from preflight.cli.parts.request import request
    from preflight.cli.parts.running import run
    from preflight.cli.parts.writing import EXIT_CODES, answer, writing_of

    if not given["dry_run"]:
        for name in OF_A_DRY_RUN:
            if given[name] not in (None, (), False):
                raise UsageError(f"--{name.replace('_', '-')} belongs to --dry-run", "add --dry-run")
    if diff and fix:
        raise UsageError("--diff shows what --fix would write: name one of the two")
    if diff and given["format_"] not in (None, "text"):
        raise UsageError("--diff prints a patch, which has no other format", "leave --format out")
    look = writing_of({**given, "format_": "text"} if diff else given)
    asked = request(context, given)
    if fix or unsafe_fixes or diff:
        from preflight.cli.parts.fixing import fixed, patch

        if diff:
            return EXIT_CODES[patch(asked, look, unsafe_fixes).verdict]
        done = fixed(asked, look, unsafe_fixes)
    else:
        done = run(asked, look)
    answer(done.report, look, done.sources)
    return EXIT_CODES[done.report.verdict]
