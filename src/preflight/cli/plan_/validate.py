"""``preflight plan validate``: how far predictions are from published measurements."""

from __future__ import annotations

from typing import Any

import click

from preflight.cli.parts.options import output


@click.command("validate")
@click.option("--catalog-alone", is_flag=True, help="Leave out what needs fitting, which takes half a minute.")
@output
def command(catalog_alone: bool, **given: Any) -> int:
    """Compare memory and time of every published run that its source describes with what a plan says of it.

    Errors, bias, coverage of the intervals and the regret of the chosen layout, by source and by what was kept out of the
    fit; the same rows for other planners.
    """
    from preflight.cli.parts.writing import put, writing_of
    from preflight.errors import UsageError
    from preflight.plan.validation.memory import validate_memory
    from preflight.plan.validation.table import memory_table, time_tables
    from preflight.plan.validation.time import validate_time

    look = writing_of(given)
    if look.format not in ("text", "markdown", "json", "html"):
        raise UsageError(f"a validation cannot be shown as {look.format}", "one of text, markdown, json, html")
    time, memory = validate_time(calibrated=not catalog_alone), validate_memory()
    if look.format == "json":
        import msgspec

        answer = {"schema": "preflight.validation/1", "time": time, "memory": memory}
        put(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode() + "\n", look)
        return 0
    text = f"## Time of a step\n\n{time_tables(time)}\n\n## Memory\n\n{memory_table(memory)}\n"
    if look.format == "html":
        from preflight.report.parts.sheet import sheet

        text = sheet(f"# Predictions beside published measurements\n\n{text}")
    put(text, look)
    return 0
