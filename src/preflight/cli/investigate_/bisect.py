"""``preflight investigate bisect``: where between what works and what fails the failure begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from preflight.cli.parts.grouped import Grouped, GroupedCommand
from preflight.cli.parts.options import SCRIPT_ARGUMENTS, F, ScriptCommand, output

_NUMBER: Any = {"type": click.IntRange(min=1), "metavar": "N"}


class _Command(ScriptCommand, GroupedCommand):
    """A command whose words after ``--`` are the program that is run."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Show the program in the usage line."""
        return [*click.Command.collect_usage_pieces(self, ctx), "-- PROGRAM..."]


def _pair(name: str, help_: str, kind: Any = int) -> Callable[[F], F]:
    return click.option(
        name, nargs=2, type=kind, metavar="WORKS FAILS", cls=Grouped, group="What is bisected", help=help_
    )


def _test(*names: str, **more: Any) -> Callable[[F], F]:
    return click.option(*names, cls=Grouped, group="A test", **more)


def _shape(*names: str, **more: Any) -> Callable[[F], F]:
    return click.option(*names, cls=Grouped, group="Sizes that are possible", **more)


@click.command("bisect", cls=_Command)
@_pair("--scale", "Numbers of GPUs; {gpus}, {nodes}, {gpus_per_node} stand for them.")
@_pair("--batch", "Batch sizes; {batch} stands for it.")
@_pair("--layers", "Numbers of layers; {layers} stands for it.")
@_pair("--configs", "Two configurations (YAML, JSON, .env, .args); {config} stands for the one to try.", str)
@_pair("--commits", "Two commits; each is checked out into a folder of its own, where the program runs.", str)
@click.option(
    "--nodes",
    metavar="FILE|A,B,C",
    cls=Grouped,
    group="What is bisected",
    help="Nodes of which one or more make it fail; {nodelist} stands for those to use.",
)
@click.option(
    "--explain-scale",
    nargs=2,
    type=int,
    metavar="A B",
    cls=Grouped,
    group="What is bisected",
    help="Run nothing: say what changes between two numbers of GPUs.",
)
@click.option(
    "--hypotheses",
    "causes",
    metavar="CAUSE=P,...|REPORT",
    cls=Grouped,
    group="What is bisected",
    help="Run nothing: say which test tells most about these causes per GPU-minute.",
)
@click.option(
    "--result",
    "results",
    multiple=True,
    metavar="TEST=OUTCOME",
    cls=Grouped,
    group="What is bisected",
    help="What a test of --hypotheses has shown.",
)
@_test(
    "--launcher",
    default="command",
    show_default=True,
    metavar="NAME",
    help="command, torchrun, srun, sbatch or kubectl (the program is then a batch script or a manifest).",
)
@_test(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=1800.0,
    show_default=True,
    metavar="SECONDS",
    help="A test that has not ended by then is ended: a time-out.",
)
@_test(
    "--queue",
    type=click.FloatRange(min=0),
    default=86400.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a test may wait in a queue before its time begins (sbatch).",
)
@_test(
    "--signature",
    metavar="ID|/REGEX/|timeout|any",
    help="The failure that is looked for (default: that of the first test that fails).",
)
@_test("--flaky", metavar="P|learn", help="The failure comes only now and then: with this probability, or learn it.")
@_test(
    "--retries",
    type=click.IntRange(min=0),
    metavar="N",
    default=2,
    show_default=True,
    help="For tests that did not start properly.",
)
@_test("--budget", type=click.FloatRange(min=0), metavar="GPU_HOURS", help="Stop before more than this is spent.")
@_test(
    "--gpus",
    **_NUMBER,
    help="GPUs of a test, for the budget, where the size is not bisected.",
)
@_test("--least-nodes", **_NUMBER, default=1, show_default=True, help="Nodes that a run needs (--nodes).")
@_test("--step", **_NUMBER, default=1, show_default=True, help="Between two values (--batch, --layers).")
@_test("--config", metavar="FILE", help="A configuration in which --key is set; or, with --explain-scale, one of plan.")
@_test("--key", metavar="NAME", help="The dotted key that gets the value: model.num_layers.")
@_test("--state", metavar="FOLDER", help="Where logs and results are kept (default: .preflight/bisect/...).")
@_test("--fresh", is_flag=True, help="Do not use results that are kept.")
@_test("--dry-run", is_flag=True, help="Show the budget and the commands, and run nothing.")
@_shape("--tensor-parallel", "--tp", "tensor", **_NUMBER, default=1, help="Degree of a model copy.")
@_shape("--pipeline-parallel", "--pp", "pipeline", **_NUMBER, default=1, help="Degree of a model copy.")
@_shape("--context-parallel", "--cp", "context", **_NUMBER, default=1, help="Degree of a model copy.")
@_shape("--gpus-per-node", **_NUMBER, default=8, show_default=True, help="Above one node: whole nodes.")
@_shape("--global-batch", **_NUMBER, help="Stays the same, and has to divide.")
@_shape("--micro-batch", **_NUMBER, default=1, show_default=True, help="Samples of a micro-batch.")
@_shape("--nodes-per-switch", **_NUMBER, help="Nodes below one leaf switch (--explain-scale).")
@_shape("--parameters", type=float, metavar="N", help="Of the model, for the messages (--explain-scale).")
@output
def command(**given: Any) -> int:
    """Find the smallest size, batch, model, difference or commit that fails, or the nodes with which it does.

    Each test is one run of PROGRAM with a deadline; only the same failure counts, and nothing is run twice: an
    interrupted search goes on where it stopped.

    Exit codes: 1 the breaking point was found, 2 misuse, 3 it cannot be told.
    """  # fmt: skip
    from preflight.cli.parts.writing import writing_of

    look = writing_of(given)
    program = click.get_current_context().meta.get(SCRIPT_ARGUMENTS, ())
    if given["explain_scale"] is not None:
        from preflight.cli.parts.scale_pages import explain_scale

        return explain_scale(given, look)
    if given["causes"] is not None:
        from preflight.cli.parts.hypothesis_pages import next_test

        chance = float(given["flaky"]) if given["flaky"] not in (None, "learn") else 1.0
        return next_test(given["causes"], look, given["results"], given["gpus"] or 1, chance)
    from preflight.cli.parts.bisecting import bisect

    return bisect(program, given, look)
