"""``preflight monitor infer``: learn what holds in runs that went well."""

from __future__ import annotations

from typing import Any

import click


@click.command("infer")
@click.argument("folders", nargs=-1, required=True, metavar="DIR...")
@click.option("-o", "--output", required=True, metavar="FILE", help="The invariants file to write.")
@click.option("--relation", "relations", multiple=True, metavar="NAME", help="Learn only these relations.")
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="Where the traces are read: in this process, or on the machines of a Ray cluster.",
)
@click.option("--force", is_flag=True, help="Write over a file that is there; what a person said in it is kept.")
@click.option("--quiet", is_flag=True, help="Say nothing on stderr but errors.")
def command(
    folders: tuple[str, ...], output: str, relations: tuple[str, ...], engine: Any, force: bool, quiet: bool
) -> int:
    """Learn from recorded runs of correct training what must hold in the next one.

    Several runs are better than one: what only one of them says is dropped, and so is what another breaks. Pinned and
    suppressed invariants of the file that is written over stay as they are.
    """
    import os

    from preflight.cli.parts.live import remark
    from preflight.cli.parts.progress import progress
    from preflight.cli.parts.writing import Writing
    from preflight.errors import UsageError
    from preflight.monitor.invariants_file import keep_said, read_invariants, write_invariants
    from preflight.monitor.learn.infer import infer

    there = os.path.exists(output)
    if os.path.isdir(output):
        raise UsageError(f"-o {output}: is a folder", "name a file in it, as invariants.jsonl")
    if there and not force:
        raise UsageError(f"-o {output}: is there already", "--force writes over it; what a person said in it is kept")
    before = read_invariants(output) if there else []
    with progress("parts of the traces read", Writing(format="text", quiet=quiet)) as tell:
        learnt = infer(folders, relations or None, engine, tell)
    found = keep_said(before, learnt.invariants)
    write_invariants(output, found)
    if not quiet:
        read = f"{learnt.rows:,} events of {len(learnt.runs)} {'run' if len(learnt.runs) == 1 else 'runs'}"
        own = sum(bool(one.subject) for one in found)
        remark(f"{len(found)} invariants from {read} in {output}: {own} about this program, the others general")
        dropped = (
            ("unstable", learnt.unstable, "another run breaks them"),
            ("unconfirmed", learnt.unconfirmed, "only one of several runs speaks of them"),
        )
        for word, number, why in dropped:
            if number:
                remark(f"{number} {word} left out: {why}")
        for name, fails in sorted(learnt.broken.items()):
            remark(f"{name} is left out: broken {fails} times in these runs, and nothing tells when")
        for name, error in sorted(learnt.failed.items()):
            remark(f"{name} is left out: it failed with {error}")
    return 0
