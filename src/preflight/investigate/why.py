"""Why it happened: the chain of an incident, from logs or of a report, with what a person adds."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from preflight.errors import InputError
from preflight.investigate.whys import with_answers
from preflight.vocabulary.report import Report


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
