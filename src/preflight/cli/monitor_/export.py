"""``preflight monitor export``: the rows of a trace for other programs."""

from __future__ import annotations

import click


@click.command("export")
@click.argument("folder", metavar="DIR")
@click.option("-o", "--output", metavar="DIR", help="The folder to write into, a file for each kind of rows.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "csv", "parquet"]),
    default=None,
    help="json (lines), csv or parquet (default: by the ending of -o, else json).",
)
@click.option(
    "--kind", "kinds", multiple=True, metavar="KIND", help="Only these kinds of rows: call, state, scalar ..."
)
@click.option("--force", is_flag=True, help="Write over files that are there.")
@click.option("--quiet", is_flag=True, help="Say nothing on stderr but errors.")
def command(folder: str, output: str | None, form: str | None, kinds: tuple[str, ...], force: bool, quiet: bool) -> int:
    """Seal a trace, or write its rows for other programs.

    Without -o the segments of DIR are sealed to Parquet in the folder itself, also those of a run that was killed; with
    it, the rows are written to another folder as JSON lines, CSV or Parquet.
    """
    from typing import cast

    from preflight.cli.parts.live import remark
    from preflight.errors import UsageError
    from preflight.monitor.trace.export import Format, export
    from preflight.monitor.trace.seal import seal

    if output is None:
        if form is not None or kinds:
            raise UsageError("--format and --kind need a folder to write into", "name it: -o DIR")
        index = seal(folder, broken=True)
        if not quiet:
            remark(f"{folder} is sealed: processes {len(index.processes)}, tables {len(index.tables)}")
        return 0
    form = form or next((ending for ending in ("csv", "parquet") if output.rstrip("/").endswith(f".{ending}")), "json")
    written = export(folder, output, kinds, cast(Format, form), force)
    if not quiet:
        for kind, (path, rows) in written.items():
            remark(f"{rows:,} {'row' if rows == 1 else 'rows'} of {kind} in {path}")
    return 0
