"""``preflight investigate tree``: the decision trees, and the way that the evidence takes through them."""

from __future__ import annotations

from typing import Any

import click

from preflight.cli.parts.options import output


@click.command("tree")
@click.argument("name", metavar="[NAME]", required=False)
@click.option(
    "--for", "report", metavar="REPORT|LOGS", help="Walk it with a report of investigate (JSON), or with logs."
)
@click.option("--say", "told", multiple=True, metavar="QUESTION=ANSWER", help="Answer a question yourself.")
@click.option("--mermaid", is_flag=True, help="As a Mermaid flow chart.")
@output
def command(name: str | None, **given: Any) -> int:
    """Show a decision tree (triage, first-five-minutes, crash, performance), or walk it with what is known.

    Without a name, all trees are listed; a walk begins with triage.

    Exit codes: 0 shown, or walked to an end; 2 misuse; 3 a question has no answer yet.
    """
    from preflight.cli.parts.tree_pages import FORMATS, listed, shown, walked
    from preflight.cli.parts.writing import writing_of
    from preflight.errors import UsageError

    look = writing_of(given)
    if look.format not in FORMATS:
        raise UsageError(f"a tree cannot be shown as {look.format}", f"one of {', '.join(FORMATS)}; or --mermaid")
    if given["report"] is not None or given["told"]:
        return walked(name, given["report"], given["told"], given["mermaid"], look)
    return listed(look) if name is None else shown(name, given["mermaid"], look)
