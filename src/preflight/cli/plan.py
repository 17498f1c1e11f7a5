"""``preflight plan``: memory, time and cost of a model on a cluster."""

from __future__ import annotations

from typing import Any

import click

from preflight.cli.parts.options import output


@click.command("plan")
@click.argument("model", nargs=-1, metavar="[[MODEL_TYPE] SIZE_BILLIONS BATCH]")
@click.option(
    "--gpu", "--gpu-type", "gpu", metavar="NAME", help="The GPU: H100, 'NVIDIA A100 40GB' ... (default: H100)."
)
@click.option("--gpus", type=click.IntRange(min=1), metavar="N", help="How many GPUs (default 1).")
@click.option("--strategy", metavar="S", help="data_parallel, tensor_parallel, pipeline_parallel, fsdp, zero1 ...")
@click.option("--sequence-length", type=click.IntRange(min=1), metavar="N", help="Tokens of a sample (default 2048).")
@output
@click.option("-v", "--verbose", is_flag=True, help="Also how every number came about.")
def command(model: tuple[str, ...], **given: Any) -> int:
    """Say whether a model fits on a cluster, how long a step takes, and what holds it back.

    MODEL_TYPE is transformer (the default); SIZE_BILLIONS its parameters; BATCH the samples of an optimizer step.
    """
    from preflight.check.source_lines import SourceLines
    from preflight.cli.parts.writing import EXIT_CODES, answer, writing
    from preflight.plan.inputs.command_line import request_of
    from preflight.plan.make import plan_report

    look = writing(
        given["format_"], given["output"], given["quiet"], given["no_color"], given["width"], given["verbose"]
    )
    report = plan_report(request_of(model, given))
    answer(report, look, SourceLines())
    return EXIT_CODES[report.verdict]
