"""Reports that were saved as JSON, read back."""

from __future__ import annotations

import msgspec

from preflight.errors import UsageError
from preflight.vocabulary.report import SCHEMA, Report


class _Marked(msgspec.Struct):
    schema: str = ""


def saved_report(path: str) -> Report | None:
    """Return the report that a JSON file holds; None where it holds something else.

    Raises:
        UsageError: The file cannot be read, or is a report of another schema, or a damaged one.
    """
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    try:
        schema = msgspec.json.decode(content, type=_Marked).schema
    except msgspec.DecodeError:
        return None
    if not schema.startswith("preflight.report/"):
        return None
    if schema != SCHEMA:
        raise UsageError(f"{path} is a {schema}, and {SCHEMA} is understood", "write it again with this version")
    try:
        return msgspec.json.decode(content, type=Report)
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} is damaged: {error}") from error
