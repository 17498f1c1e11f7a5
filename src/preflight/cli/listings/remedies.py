"""The remedies: what can be done against a failure."""

from __future__ import annotations

from typing import Any

COLUMNS = ("name", "kind", "category", "danger", "changes_files", "causes", "title")
IN_TEXT = ("name", "kind", "category", "title")
EXACT = ("kind", "category", "danger", "causes")


def rows(catalog: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Every remedy, by name."""
    from preflight.catalog.remedy_files import load_remedies

    return [
        {
            "name": one.id, "kind": one.kind, "category": one.category, "danger": one.danger,
            "changes_files": bool(one.changes), "causes": list(one.causes), "title": one.title,
        }
        for one in load_remedies(catalog)
    ]  # fmt: skip
