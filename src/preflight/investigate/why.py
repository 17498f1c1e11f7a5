"""Why it happened: the chain of an incident, from logs or from a report, with what a person adds."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from preflight.errors import InputError
from preflight.investigate.whys import with_answers
from preflight.vocabulary.report import SCHEMA, Report


def report_for(paths: Sequence[str], signatures: Sequence[str] = ()) -> Report:
    """Return the report of an incident: the one that was written down, or a new one of logs.

    Raises:
        InputError: A path is not there.
    """
    if len(paths) == 1 and paths[0].endswith(".json") and os.path.isfile(paths[0]):
        with open(paths[0], "rb") as file:
            content = file.read()
        if SCHEMA.encode() in content[:200]:
            try:
                return msgspec.json.decode(content, type=Report)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise InputError(f"{paths[0]}: not a report: {error}") from None
    from preflight.investigate.diagnose import diagnose

    return diagnose(list(paths), signatures=signatures)


def explained(report: Report, answers: Sequence[str]) -> Report:
    """Return a report with what a person knows of the causes.

    Raises:
        InputError: There is no incident to explain.
    """
    incident = report.incident
    if incident is None or incident.category == "none":
        raise InputError("there is no failure to explain", incident.headline if incident is not None else None)
    return msgspec.structs.replace(
        report, command="investigate why", incident=with_answers(incident, [text for text in answers if text.strip()])
    )
