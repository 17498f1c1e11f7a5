"""Reports that were written as JSON, read back."""

from __future__ import annotations

import msgspec

from preflight.vocabulary.report import SCHEMA, Report


class _Head(msgspec.Struct, frozen=True):
    schema: str = ""


def schema_of(content: str | bytes) -> str | None:
    """Return the schema that JSON names, empty where it names none; None where it is no JSON object."""
    try:
        return msgspec.json.decode(content, type=_Head).schema
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def is_report(content: str | bytes) -> bool:
    """Return whether it is a report, of whatever version."""
    return (schema_of(content) or "").startswith("preflight.report/")


def decoded(content: str | bytes) -> Report:
    """Return a report.

    Raises:
        ValueError: The text is not JSON, not a report, or of a schema that this version does not know.
    """
    schema = schema_of(content)
    if schema and schema != SCHEMA:
        raise ValueError(f"it is a {schema}, and {SCHEMA} is understood")
    try:
        return msgspec.json.decode(content, type=Report)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not a report, or it is damaged: {error}") from None
