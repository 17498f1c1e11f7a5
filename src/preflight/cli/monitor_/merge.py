"""``preflight monitor merge``: one invariants file of several."""

from __future__ import annotations

import click


@click.command("merge")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("-o", "--output", required=True, metavar="FILE", help="The file to write.")
@click.option("--all", "everything", is_flag=True, help="Also what is in one of the files only.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@click.option("--quiet", is_flag=True, help="Say nothing on stderr but errors.")
def command(files: tuple[str, ...], output: str, everything: bool, force: bool, quiet: bool) -> int:
    """Make one invariants file of several that were learnt apart.

    An invariant stays when every file has it, or when it is pinned in one; what a person said of it stays, too.
    Support is added up, confidence is weighed by it.
    """
    import os

    from preflight.cli.parts.live import remark
    from preflight.errors import UsageError
    from preflight.monitor.invariants_file import merge, read_invariants, write_invariants

    if os.path.exists(output) and not force:
        raise UsageError(f"-o {output}: is there already", "--force writes over it")
    parts = [read_invariants(file) for file in files]
    merged = merge(parts, everything)
    write_invariants(output, merged)
    if not quiet:
        left = len({one.id for part in parts for one in part}) - len(merged)
        remark(f"{len(merged)} invariants in {output}; {left} left out that not every file has")
    return 0
