"""The options that commands share, each written once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
SCRIPT_ARGUMENTS = "preflight.script_arguments"

OF_A_DRY_RUN = (
    "steps", "batch", "assume", "python", "no_probe", "time_limit", "memory_snapshot", "chrome_trace", "expectations",
    "what_fits",
)  # fmt: skip
"""Options of a check that say something only of a dry run."""


class ScriptCommand(click.Command):
    """A command whose arguments after ``--`` are those of the script, not its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Split the line at the first ``--``."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[SCRIPT_ARGUMENTS] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Show the script's arguments in the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- ARGUMENTS OF THE SCRIPT]"]


def gpu(command: F) -> F:
    """Add the GPU that something is meant for."""
    return click.option("--gpu", "--gpu-type", "gpu", metavar="NAME", help="The GPU: H100, 'NVIDIA A100 40GB' ...")(
        command
    )


def placed(command: F) -> F:
    """Add where a run takes place: its GPU, how many there are, and how it is started on them."""
    options = (
        gpu,
        click.option("--gpu-memory", type=float, metavar="GB", help="The size of its memory, as sold."),
        click.option("--gpus", type=click.IntRange(min=1), metavar="N", help="How many GPUs the run has."),
        click.option("--launch", metavar="LINE", help="How it is started: 'torchrun --nproc_per_node 8 train.py'."),
    )
    return _apply(command, options)


def persona(command: F) -> F:
    """Add how much of what was found is shown."""
    return click.option(
        "--persona", type=click.Choice(["regular", "pedantic", "audit"]),
        help="How much to show: regular (default), also notes and doubts (pedantic), everything (audit).",
    )(command)  # fmt: skip


def checking(command: F) -> F:
    """Add what may be said about a check."""
    options = (
        click.argument("paths", nargs=-1, metavar="PATH...|-"),
        placed,
        persona,
        click.option("--fail-on", type=click.Choice(["error", "warning"]), help="What is NO-GO (default: error)."),
        click.option("--select", multiple=True, metavar="RULES", help="Only these: names, codes, MEM, families."),
        click.option("--ignore", multiple=True, metavar="RULES", help="Hide these rules."),
        click.option("--exclude", multiple=True, metavar="PATTERN", help="Leave files or folders out of the search."),
        click.option("--baseline", metavar="FILE", help="Hide what this file lists; written if missing."),
        click.option("--update-baseline", is_flag=True, help="Write the present findings to the baseline."),
        click.option("-j", "--jobs", type=click.IntRange(min=1), metavar="N", help="Processes for many files."),
    )  # fmt: skip
    return _apply(command, options)


def output(command: F) -> F:
    """Add where the answer goes and in which form."""
    options = (
        click.option("--format", "format_", metavar="FORMAT",
                     help="text, json, csv, sarif, junit, markdown, github, html (default: by the ending of -o)."),
        click.option("-o", "--output", metavar="FILE", help="Write the answer to a file."),
        click.option("--quiet", is_flag=True, help="Say nothing on stderr but errors."),
        click.option("--no-color", is_flag=True, help="No colours; NO_COLOR in the environment does the same."),
        click.option("--width", type=click.IntRange(min=60, max=1000), metavar="COLUMNS",
                     help="Columns of the text (default: the terminal's, else 80)."),
    )  # fmt: skip
    return _apply(command, options)


def _apply(command: F, options: tuple[Callable[[F], F], ...]) -> F:
    for option in reversed(options):
        command = option(command)
    return command
