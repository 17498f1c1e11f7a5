"""Reports that were saved as JSON, read back; and the report of whatever a person names."""

from __future__ import annotations

import os
from collections.abc import Sequence

from preflight.errors import InputError
from preflight.vocabulary.report import Report
from preflight.vocabulary.written import decoded, is_report


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
    if not is_report(content):
        return None
    try:
        return decoded(content)
    except ValueError as error:
        raise InputError(f"{path}: {error}", "write it again with this version") from None


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
