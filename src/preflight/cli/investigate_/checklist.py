"""``preflight investigate checklist``: what has to be so before a run, checked."""

from __future__ import annotations

from typing import Any

import click

from preflight.cli.parts.options import output


@click.command("checklist")
@click.argument("name", metavar="[NAME|FILE.toml]", required=False)
@click.option("--script", metavar="FILE", help="The training script, for the items that rules of check decide.")
@click.option("--gpu", metavar="NAME", help="The GPU that it is to run on.")
@click.option("--gpus", type=click.IntRange(min=1), metavar="N", help="How many.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="What the list needs to know.")
@click.option("--only", multiple=True, metavar="ITEM", help="Check these items alone.")
@click.option("--show", is_flag=True, help="Show the items, and check nothing.")
@click.option("--attest", metavar="ITEM", help="Vouch for an item; needs --by and --evidence.")
@click.option("--by", metavar="NAME", help="Who vouches for it.")
@click.option("--evidence", metavar="TEXT|FILE", help="What is shown for it; of a file the hash is kept.")
@click.option(
    "--from",
    "incidents",
    multiple=True,
    metavar="REPORT",
    help="Propose a list from reports of investigate; -o mine.toml writes it.",
)
@click.option(
    "--state", metavar="FILE", help="Where words of people are kept (default: .preflight/checklists/NAME.json)."
)
@output
def command(name: str | None, **given: Any) -> int:
    """Go through a checklist: before-launch, scaling-up, long-runs, llama-70b, or one's own.

    An item is checked on this machine, in the script, by a command, or by a person who vouches for it with evidence for a
    limited time. What is critical and was not checked is never a pass.

    Exit codes: 0 GO, 1 something critical fails, 2 misuse, 3 something critical was not checked.
    """  # fmt: skip
    from preflight.cli.parts import checklist_pages as pages
    from preflight.cli.parts.writing import writing_of
    from preflight.errors import UsageError

    if given["incidents"]:
        return pages.proposed(given["incidents"], given["output"], given["quiet"])
    look = writing_of(given)
    if name is None:
        if given["attest"] or given["only"] or given["show"]:
            raise UsageError("no checklist is named", "preflight list checklists shows all")
        from preflight.cli.parts.recording import catalog
        from preflight.cli.parts.tables import FORMATS, render_table, rows
        from preflight.cli.parts.writing import put

        if look.format not in FORMATS:
            raise UsageError(f"a list cannot be shown as {look.format}", f"one of {', '.join(FORMATS)}")
        put(render_table("checklists", rows("checklists", (), catalog()), look), look)
        return 0
    if given["attest"]:
        return pages.vouch(name, given, look)
    return pages.shown(name, look) if given["show"] else pages.gone_through(name, given, look)
