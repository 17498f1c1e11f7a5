"""The failure signatures: what a line of a log says, and whether it names a cause."""

from __future__ import annotations

from typing import Any

COLUMNS = ("name", "family", "category", "role", "title", "causes", "remedies", "since")
IN_TEXT = ("name", "category", "role", "title")
EXACT = ("family", "category", "role")


def rows(catalog: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Every signature, by name, those of the user's catalog too."""
    from preflight.catalog.signature_files import load_signatures

    return [
        {
            "name": one.id, "family": one.id.partition(".")[0], "category": one.category, "role": one.role,
            "title": one.title, "causes": ", ".join(cause.id for cause in one.causes),
            "remedies": ", ".join(one.remedies), "since": one.since,
        }
        for one in load_signatures(catalog)
    ]  # fmt: skip
