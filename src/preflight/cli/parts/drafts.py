"""Drafts of what would tell a failure the next time: signatures and invariants in a catalog folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from preflight.errors import InputError, UsageError
from preflight.vocabulary.incident import Pointer
from preflight.vocabulary.report import Report

INVARIANTS = os.path.join("invariants", "drafted.jsonl")


def write_drafts(report: Report, folder: str) -> list[str]:
    """Write the drafts of an incident into a catalog folder, as ``[tool.preflight] catalog`` names them, and read them back.

    Returns:
        The files; none where what would tell it is there already.

    Raises:
        UsageError: A file is there already.
        InputError: The folder cannot be written.
    """
    texts: dict[str, str] = {}
    for one, text in _drafts(report):
        family, _, name = one.id.partition(".")
        path = os.path.join("signatures", family, f"{name}.toml") if one.kind == "signature" else INVARIANTS
        texts[path] = texts.get(path, "") + text + "\n"
    for path in texts:
        if os.path.exists(os.path.join(folder, path)):
            raise UsageError(f"--draft {folder}: {path} is there already", "name another folder")
    try:
        for path, text in texts.items():
            target = Path(folder, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--draft {folder}: cannot be written: {error.strerror or error}") from None
    _read_back(folder, texts)
    return [os.path.join(folder, path) for path in texts]


def _drafts(report: Report) -> Iterator[tuple[Pointer, str]]:
    for one in report.incident.caught_by if report.incident is not None else ():
        if one.draft is not None:
            yield one, one.draft


def _read_back(folder: str, texts: dict[str, str]) -> None:
    """A draft that does not load is an error of ours, and better said here than at its first use."""
    if INVARIANTS in texts:
        from preflight.monitor.library_of import in_force

        in_force([os.path.join(folder, INVARIANTS)])
    if any(path != INVARIANTS for path in texts):
        from preflight.catalog.signature_files import load_signatures

        load_signatures((folder,))
