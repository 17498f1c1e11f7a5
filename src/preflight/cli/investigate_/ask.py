"""``preflight investigate ask``: a second opinion of a language model that the person names."""

from __future__ import annotations

import os
from typing import Any

import click

from preflight.cli.parts.options import output
from preflight.errors import InputError, UsageError


@click.command("ask")
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option("--endpoint", metavar="URL", help="A server that speaks OpenAI's protocol: http://127.0.0.1:8000/v1")
@click.option("--model", metavar="NAME", help="The model to ask.")
@click.option("--key-from", metavar="VARIABLE", help="The environment variable that holds the key, if one is needed.")
@click.option("--deadline", type=click.FloatRange(min=1.0), default=60.0, show_default=True, metavar="SECONDS")
@click.option("--dry-run", is_flag=True, help="Show what would be sent, and send nothing.")
@click.option("--signatures", multiple=True, metavar="DIR", help="A folder with further signatures.")
@output
def command(paths: tuple[str, ...], **given: Any) -> int:
    """Ask a language model what it makes of an incident; nothing is sent anywhere without this command.

    PATH is what preflight investigate reads, or the JSON report that it wrote. Keys, passwords, addresses and names of
    homes are taken out of the evidence before it is sent: look at it with --dry-run. The answer is shown as a hypothesis,
    with the lines that it cites where they are really there; verdict, confidence and exit code are those without it.
    """
    from msgspec import structs

    from preflight.check.files.source_lines import SourceLines
    from preflight.cli.parts.beside import incident_of
    from preflight.cli.parts.recording import catalog
    from preflight.cli.parts.writing import EXIT_CODES, answer, put, writing_of
    from preflight.investigate.opinion.answer import opinion_of
    from preflight.investigate.opinion.asking import address_of
    from preflight.investigate.opinion.question import question_of
    from preflight.report.parts.plain import encode

    look = writing_of(given)
    if not paths:
        raise UsageError("nothing to ask about is given", "name the logs, or a report of preflight investigate")
    if not given["model"] or not given["endpoint"]:
        raise UsageError(
            "no model is named", "--endpoint http://127.0.0.1:8000/v1 --model NAME; none is asked by default"
        )
    address = address_of(given["endpoint"])
    key = _key(given["key_from"])
    report = incident_of(paths, (*catalog(), *given["signatures"]))
    if report.incident is None or report.incident.category == "none":
        raise InputError("there is no failure to ask about", report.incident.headline if report.incident else None)
    question = question_of(report.incident, given["model"])
    if given["dry_run"]:
        put(encode({"to": address, "body": question.body}), look)
        return 0
    opinion = opinion_of(question, endpoint=given["endpoint"], key=key, seconds=given["deadline"])
    answer(structs.replace(report, opinion=opinion), look, SourceLines())
    return EXIT_CODES[report.verdict]


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UsageError(f"--key-from {variable}: the variable is not set")
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"--key-from {variable}: the variable holds letters that no key has")
    return key
