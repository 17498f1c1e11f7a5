"""``preflight explain``: the page of a rule or a relation."""

from __future__ import annotations

from typing import Any

import click

from preflight.cli.parts.options import output


@click.command("explain")
@click.argument("identifier", metavar="ID")
@output
def command(identifier: str, **given: Any) -> int:
    """Print the page of a rule or a relation: what it finds, why that matters, how to fix it, examples.

    ID is a rule's name (gradients-never-zeroed) or code (OPT001), or a relation's name (gradients-cleared).
    """
    from preflight.cli.parts.pages import FORMATS, page, render_page
    from preflight.cli.parts.writing import put, writing
    from preflight.errors import UsageError

    look = writing(given["format_"], given["output"], given["quiet"], given["no_color"], given["width"])
    if look.format not in FORMATS:
        raise UsageError(f"a page cannot be shown as {look.format}", f"one of {', '.join(FORMATS)}")
    from preflight.cli.parts.relation_pages import is_relation, relation_page, render_relation

    if is_relation(identifier):
        put(render_relation(relation_page(identifier), look), look)
    else:
        put(render_page(page(identifier), look), look)
    return 0
