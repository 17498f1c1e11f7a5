"""``preflight monitor show``: what must hold, in sentences."""

from __future__ import annotations

from typing import Any

import click

from preflight.cli.parts.options import output


@click.command("show")
@click.argument("files", nargs=-1, metavar="[FILE...]")
@click.option("--relation", metavar="NAME", help="Only invariants of this relation.")
@click.option(
    "--match", "words", multiple=True, metavar="TEXT", help="Only those whose id, sentence or subject has it."
)
@click.option("--state", type=click.Choice(["pinned", "suppressed"]), help="Only those that a person said this of.")
@click.option(
    "--sort",
    type=click.Choice(["relation", "id", "support", "confidence"]),
    default="relation",
    show_default=True,
    help="The order.",
)
@click.option("--all", "everything", is_flag=True, help="Also the general statements of FILE, one by one.")
@output
def command(files: tuple[str, ...], **given: Any) -> int:
    """Show invariants as sentences: what must hold, how often it held, where it comes from.

    FILE is an invariants file; without one, what is in force here: the shipped library and what the project says of it.
    Of a FILE, what was learnt of the program is shown as sentences, and what holds in correct training in general by name.
    """
    from preflight.cli.parts.invariants import chosen, render_invariants
    from preflight.cli.parts.recording import catalog
    from preflight.cli.parts.writing import put, writing_of
    from preflight.monitor.library_of import in_force

    look = writing_of(given)
    found = chosen(in_force(files, catalog()), given["relation"], given["words"], given["state"], given["sort"])
    whole = not files or given["everything"] or given["relation"] or given["words"] or given["state"]
    put(render_invariants(found, look, whole=bool(whole)), look)
    return 0
