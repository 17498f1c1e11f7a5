"""The relations: what can be said of a recorded training run."""

from __future__ import annotations

from typing import Any

COLUMNS = ("name", "severity", "compares", "learns", "needs", "title")
IN_TEXT = ("name", "severity", "compares", "title")
EXACT = ("severity", "compares", "needs")


def rows(catalog: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Every relation, by name; a catalog holds none."""
    from preflight.monitor.relation import relations

    return [
        {
            "name": name, "severity": kind.severity, "compares": "ranks" if kind.across else "steps",
            "learns": "from runs" if kind.learns else "from a dry run" if kind.predicted else "holds in general", "needs": ", ".join(sorted(kind.needs)),
            "title": kind.title(),
        }
        for name, kind in sorted(relations().items())
    ]  # fmt: skip
