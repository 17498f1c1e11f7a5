"""What changes between two sizes, as text, JSON, Markdown and a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from preflight.cli.parts.tables import LEAST_ROOM, hanging
from preflight.cli.parts.writing import Writing, put
from preflight.errors import UsageError
from preflight.investigate.bisect.lattice import Shape
from preflight.investigate.bisect.scale_change import Quantity, ScaleChange, Setup, scale_change

_BELOW = " " * 4


def explain_scale(given: Mapping[str, Any], look: Writing) -> int:
    """Say what changes between two numbers of GPUs."""
    before, after = given["explain_scale"]
    change = scale_change(before, after, _setup(given))
    if look.format == "json":
        import msgspec

        from preflight.report.parts.plain import encode

        put(encode({"schema": "preflight.scale-change/1", **msgspec.to_builtins(change)}), look)
    elif look.format == "markdown":
        put(_markdown(change), look)
    elif look.format == "html":
        from preflight.report.parts.sheet import sheet

        put(sheet(f"# From {before} to {after} GPUs\n\n{_markdown(change)}"), look)
    elif look.format == "text":
        put(_text(change, look.width), look)
    else:
        raise UsageError(f"a comparison of sizes cannot be shown as {look.format}", "text, json, markdown or html")
    return 0


def _setup(given: Mapping[str, Any]) -> Setup:
    """What is known of the run: from a configuration of plan, and from the options."""
    shape = Shape(
        gpus_per_node=given["gpus_per_node"], tensor=given["tensor"], pipeline=given["pipeline"], context=given["context"],
        global_batch=given["global_batch"], micro_batch=given["micro_batch"],
    )  # fmt: skip
    if given["config"] is None:
        return Setup(shape=shape, nodes_per_switch=given["nodes_per_switch"], parameters=given["parameters"])
    from preflight.plan.inputs.command_line import request_of
    from preflight.plan.spread import layout

    request = request_of((), {"config": given["config"]})
    parallel = layout(request)
    shape = Shape(
        gpus_per_node=request.cluster.gpus_per_node, tensor=parallel.tp, pipeline=parallel.pp, context=parallel.cp,
        global_batch=request.run.global_batch or given["global_batch"],
        micro_batch=request.run.micro_batch or given["micro_batch"],
    )  # fmt: skip
    return Setup(
        shape=shape, nodes_per_switch=given["nodes_per_switch"], model=request.model, run=request.run, parallel=parallel,
        gpu=request.cluster.gpu, parameters=given["parameters"],
    )  # fmt: skip


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit == "bytes":
        from preflight.vocabulary.quantity import format_bytes

        return format_bytes(value)
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def _row(one: Quantity) -> list[str]:
    ratio = (
        "same"
        if not one.changed
        else f"x {one.after / one.before:.3g}"
        if one.before and one.after is not None
        else "new"
    )
    return [one.name, _value(one.before, one.unit), _value(one.after, one.unit), ratio, one.arithmetic]


def _text(change: ScaleChange, width: int) -> str:
    rows = [["", f"{change.before} GPUs", f"{change.after} GPUs", "", ""], *map(_row, change.quantities)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines: list[str] = []
    for name, before, after, ratio, arithmetic in rows:
        lead = f"{name:<{widths[0]}}  {before:>{widths[1]}}  {after:>{widths[2]}}  {ratio:<{widths[3]}}  "
        # Where the figures are too long for words beside them, these stand below.
        beside = len(lead) + min(len(arithmetic), LEAST_ROOM) <= width
        lines += hanging(lead, arithmetic, width) if beside else [lead.rstrip(), *hanging(_BELOW, arithmetic, width)]
    told = (*change.thresholds, *change.notes)
    said = ["", *(line for one in told for line in hanging("- ", one, width))] if told else []
    return "\n".join([*lines, *said]) + "\n"


def _markdown(change: ScaleChange) -> str:
    head = [f"| | {change.before} GPUs | {change.after} GPUs | | |", "|---|---:|---:|---|---|"]
    rows = [f"| {' | '.join(_row(one))} |" for one in change.quantities]
    said = ["", *(f"- {one}" for one in (*change.thresholds, *change.notes))]
    return "\n".join([*head, *rows, *said]) + "\n"


__all__ = ["explain_scale"]
