"""``preflight explain``: the page of whatever has a name: a rule, a relation, a signature, a cause, a remedy ..."""

from __future__ import annotations

from typing import Any

import click

from preflight.cli.parts.options import output


@click.command("explain")
@click.argument("identifier", metavar="ID")
@output
def command(identifier: str, **given: Any) -> int:
    """Print the page of whatever has a name: what it is or means, why, what to do, examples.

    ID is a rule's name (gradients-never-zeroed) or code (OPT001), a relation's name (gradients-cleared),
    a signature's (network.watchdog-timeout), an error number of the driver (xid-79), or the name of a cause,
    of something to look at, of an experiment, remedy, checklist, decision tree, GPU, model or probe.
    """
    from preflight.cli.parts.pages import FORMATS, find_rule, page, render_page, unknown
    from preflight.cli.parts.writing import put, writing_of
    from preflight.errors import UsageError

    look = writing_of(given)
    if look.format not in FORMATS:
        raise UsageError(f"a page cannot be shown as {look.format}", f"one of {', '.join(FORMATS)}")
    from preflight.check.files.project_config import load_project
    from preflight.cli.parts.relation_pages import is_relation, relation_page, render_relation
    from preflight.cli.parts.signature_pages import (
        driver_error_page,
        is_signature,
        render_driver_error,
        render_signature,
        signature_page,
    )

    catalog = load_project(".").catalog()
    number = driver_error_page(identifier)
    if number is not None:
        put(render_driver_error(number, look), look)
    elif is_signature(identifier, catalog):
        put(render_signature(signature_page(identifier, catalog), look), look)
    elif is_relation(identifier):
        put(render_relation(relation_page(identifier), look), look)
    elif find_rule(identifier) is not None:
        put(render_page(page(identifier), look), look)
    else:
        from preflight.cli.parts.known_pages import known_names, known_page

        told = known_page(identifier, catalog, look)
        if told is None:
            raise unknown(identifier, known_names(catalog))
        put(told, look)
    return 0
