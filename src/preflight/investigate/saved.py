"""Reports that were saved as JSON, read back; and the report of whatever a person names."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from preflight.errors import InputError
from preflight.vocabulary.report import SCHEMA, Report


class _Marked(msgspec.Struct):
    schema: str = ""


def saved_report(path: str) -> Report | None:
    """Return the report that a JSON file holds; None where it holds something else.

    Raises:
        InputError: The file cannot be read, or is a report of another schema, or a damaged one.
    """
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    try:
        schema = msgspec.json.decode(content, type=_Marked).schema
    except msgspec.DecodeError:
        return None
    if not schema.startswith("preflight.report/"):
        return None
    if schema != SCHEMA:
        raise InputError(f"{path} is a {schema}, and {SCHEMA} is understood", "write it again with this version")
    try:
        return msgspec.json.decode(content, type=Report)
    except msgspec.DecodeError as error:
        raise InputError(f"{path} is damaged: {error}") from error


def report_for(paths: Sequence[str], signatures: Sequence[str] = ()) -> Report:
    """Return the report of an incident: the one that was written down, or a new one of logs.

    Raises:
        InputError: A path is not there.
        InputError: A report is damaged, or of another schema.
    """
    if len(paths) == 1 and paths[0].endswith(".json") and os.path.isfile(paths[0]):
        saved = saved_report(paths[0])
        if saved is not None:
            return saved
    from preflight.investigate.diagnose import diagnose

    return diagnose(list(paths), signatures=signatures)
