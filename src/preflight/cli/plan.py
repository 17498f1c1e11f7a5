"""``preflight plan``: memory, time and cost of a model on a cluster."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import click

from preflight.cli.parts.grouped import GroupedCommand, WithDefault
from preflight.cli.parts.options import SCRIPT_ARGUMENTS, ScriptCommand, output
from preflight.cli.parts.planning import settings_options
from preflight.errors import UsageError


class _Planned(ScriptCommand, GroupedCommand):
    """A plan, whose script has arguments of its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Say of a negative number what it is, before it is taken for an option that does not exist."""
        own = args[: args.index("--")] if "--" in args else args
        for before, word in zip(("", *own), own, strict=False):
            if word[:1] == "-" and word[1:2].isdigit():
                where = f"{before} " if before.startswith("--") else ""
                raise UsageError(f"{where}{word} is negative", "sizes, batches and lengths are above 0")
        return super().parse_args(ctx, args)


@click.command("plan", cls=_Planned)
@click.argument("words", nargs=-1, metavar="[[MODEL_TYPE] SIZE_BILLIONS | MODEL] [BATCH]")
@settings_options
@output
@click.option("-v", "--verbose", is_flag=True, help="Also how every number came about.")
@click.pass_context
def plan(context: click.Context, /, words: tuple[str, ...], **given: Any) -> int:
    """Say whether a model fits on a cluster, how long a step takes, what it costs, and what holds it back.

    MODEL_TYPE is transformer (a decoder; the default), transformer_encoder, encoder_decoder, moe, vision_transformer,
    cnn or diffusion_model; SIZE_BILLIONS its parameters; BATCH the samples of an optimizer step over all GPUs. In place
    of both stands a MODEL: a name of the catalog, a config.json, a training script, or settings in YAML.
    """
    from preflight.check.files.source_lines import SourceLines
    from preflight.cli.parts.planning import asked
    from preflight.cli.parts.progress import dry_runs, following
    from preflight.cli.parts.writing import EXIT_CODES, answer, writing_of
    from preflight.plan.make import plan_report

    look = writing_of(given)
    with dry_runs(look) if given["dry_run"] else nullcontext():
        request = asked(words, given, context.meta.get(SCRIPT_ARGUMENTS))
    with following(look) as say:
        report = plan_report(request, say)
    answer(report, look, SourceLines())
    return EXIT_CODES[report.verdict]


command = WithDefault("plan", "preflight.cli.plan_", plan)
