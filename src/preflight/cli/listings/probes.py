"""The probes: what can be measured of a machine or a job, alone."""

from __future__ import annotations

from typing import Any

COLUMNS = ("name", "ranks", "measures", "title")
IN_TEXT = ("name", "ranks", "title")
EXACT = ("ranks",)


def rows(catalog: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Every probe, by name; a catalog holds none."""
    from preflight.investigate.probing import probe, probe_names

    settings = {"largest": 256 << 20, "world": 2}
    return [
        {
            "name": name, "ranks": "together" if probe(name).TOGETHER else "alone", "title": probe(name).TITLE,
            "measures": ", ".join(dict.fromkeys(one.partition(" ")[0] for one in probe(name).operations(settings))),
        }
        for name in probe_names()
    ]  # fmt: skip
