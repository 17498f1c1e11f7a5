"""``preflight investigate fix``: what can be done, and, when asked to, doing it."""

from __future__ import annotations

from typing import Any

import click

from preflight.cli.parts.options import output


@click.command("fix")
@click.argument("words", nargs=-1, metavar="[NAME]")
@click.option("--for", "incident", metavar="REPORT", help="The remedies for a report of investigate (JSON).")
@click.option("--to", "targets", multiple=True, metavar="FILE", help="Show what it changes in a file.")
@click.option("--apply", "apply_", is_flag=True, help="Change the files, after showing how and asking.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--revert", is_flag=True, help="Take back what was applied to the files.")
@click.option("--value", metavar="VALUE", help="What is set, instead of what the remedy says.")
@click.option("--with", "variables", multiple=True, metavar="NAME=VARIABLE", help="What is called {NAME} in the file.")
@output
def command(words: tuple[str, ...], **given: Any) -> int:
    """List the remedies, show one, or apply one to launch scripts, configurations and Python files.

    NAME is a remedy; other words narrow the list: a category, a cause, immediate, structural, a part of a name.
    Nothing is changed without --apply, and --apply asks. Every change leaves a record from which --revert takes it back.

    Exit codes: 0 shown or changed, 1 not wanted, 2 misuse, 3 nothing in the files can be changed.
    """
    from preflight.catalog.remedy_files import remedy_names
    from preflight.cli.parts.recording import catalog
    from preflight.cli.parts.writing import writing_of
    from preflight.errors import UsageError, nearest

    look = writing_of(given)
    folders = catalog()
    if given["incident"] is not None:
        from preflight.cli.parts.fixes import for_report

        return for_report(given["incident"], folders, look)
    if len(words) == 1 and words[0] in remedy_names(folders):
        from preflight.cli.parts.fixes import show, to_files

        if given["targets"]:
            return to_files(words[0], folders, look, given)
        if given["apply_"] or given["revert"]:
            raise UsageError("no file is named", f"preflight investigate fix {words[0]} --apply --to FILE")
        return show(words[0], folders, look)
    if given["targets"] or given["apply_"] or given["revert"]:
        if len(words) != 1:
            raise UsageError("no remedy is named", "preflight investigate fix lists them")
        near = nearest(words[0], remedy_names(folders))
        raise UsageError(
            f"no remedy is called {words[0]!r}",
            f"did you mean {near}?" if near else "preflight investigate fix lists them",
        )
    from preflight.cli.parts.fixes import listed

    return listed(words, folders, look)
