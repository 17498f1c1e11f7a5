"""``preflight list``: what there is."""

from __future__ import annotations

from typing import Any

import click

from preflight.cli.parts.options import output


@click.command("list")
@click.argument("kind", metavar="KIND")
@click.argument("words", nargs=-1, metavar="[WORD...]")
@output
def command(kind: str, words: tuple[str, ...], **given: Any) -> int:
    """List the rules, GPUs, models, relations, signatures, remedies, checklists or probes that are known; words narrow it.

    KIND is one of these words. A WORD is a family, tag or severity of rules, an architecture or vendor of GPUs, a family of models,
    a category or role of signatures, or a part of a name.
    """
    from preflight.check.files.project_config import load_project
    from preflight.cli.parts.tables import FORMATS, kinds, render_table, rows
    from preflight.cli.parts.writing import put, writing_of
    from preflight.errors import UsageError, nearest

    look = writing_of(given)
    if look.format not in FORMATS:
        raise UsageError(f"a list cannot be shown as {look.format}", f"one of {', '.join(FORMATS)}")
    if kind not in kinds():
        near = nearest(kind, kinds())
        raise UsageError(
            f"there is no list of {kind!r}", f"did you mean {near}?" if near else f"one of {', '.join(kinds())}"
        )
    catalog = load_project(".").catalog()
    put(render_table(kind, rows(kind, words, catalog), look), look)
    return 0
