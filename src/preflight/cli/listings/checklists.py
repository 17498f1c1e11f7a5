"""The checklists: what has to be so before a run."""

from __future__ import annotations

from typing import Any

COLUMNS = ("name", "items", "critical", "checked", "by_a_person", "title")
IN_TEXT = ("name", "items", "critical", "title")
EXACT = ("name",)


def rows(catalog: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Every checklist, by name."""
    from preflight.catalog.checklist_files import checklist_names, load_checklist
    from preflight.vocabulary.checklist import PersonCheck

    found = []
    for one in (load_checklist(name, catalog) for name in checklist_names(catalog)):
        persons = sum(isinstance(item.check, PersonCheck) for item in one.items)
        found.append({
            "name": one.id, "items": len(one.items), "critical": sum(item.critical for item in one.items),
            "checked": len(one.items) - persons, "by_a_person": persons, "title": one.title,
        })  # fmt: skip
    return found
