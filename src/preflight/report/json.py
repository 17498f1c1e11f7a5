"""The report as JSON: what other programs read."""

from __future__ import annotations

from typing import Any

from preflight.errors import InputError
from preflight.report.parts.options import Options
from preflight.report.parts.plain import encode, plain
from preflight.vocabulary.report import Report
from preflight.vocabulary.written import decoded

ENDINGS = (".json",)

_ALWAYS: dict[str, Any] = {"inputs": {}, "findings": []}
"""Sections that every command fills, if only with nothing."""


def render(report: Report, options: Options) -> str:
    """Return the report as indented JSON: the same bytes for the same report."""
    return encode(as_json(report))


def as_json(report: Report) -> dict[str, Any]:
    """Return the report as plain JSON values, its sections in the order of the vocabulary."""
    values = plain(report)
    scripts = [as_json(script) for script in report.scripts]
    ordered: dict[str, Any] = {}
    for field in Report.__struct_fields__:
        if field == "scripts" and scripts:
            ordered[field] = scripts
        elif field in values or field in _ALWAYS:
            ordered[field] = values.get(field, _ALWAYS.get(field))
    return ordered


def from_json(text: str | bytes) -> Report:
    """Read a report back.

    Raises:
        InputError: The text is not JSON, not a report, or of a schema that this version does not know.
    """
    try:
        return decoded(text)
    except ValueError as error:
        raise InputError(str(error)) from None
