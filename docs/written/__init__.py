"""The pages of the reference that come from the program: a file for each kind, found by its name."""

from __future__ import annotations

import importlib
from typing import Any


def listed(kind: str) -> list[dict[str, Any]]:
    """Return the rows that ``preflight list KIND`` shows."""
    rows: list[dict[str, Any]] = importlib.import_module(f"preflight.cli.listings.{kind}").rows()
    return rows


def table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    """Return a table in Markdown; None is an empty cell."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = ("" if cell is None else f"{cell:g}" if isinstance(cell, float) else str(cell) for cell in row)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def explained(name: str) -> str:
    """Return the page that ``preflight explain NAME`` prints, as Markdown."""
    known = importlib.import_module("preflight.cli.parts.known_pages")
    writing = importlib.import_module("preflight.cli.parts.writing").writing
    told: str | None = known.known_page(name, (), writing("markdown", None, True, True, None))
    if told is None or not told.startswith(f"# `{name}`\n"):
        raise LookupError(f"`preflight explain {name}` does not print its page")
    return told
