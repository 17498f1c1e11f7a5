"""The rules: code, name, severity, confidence, family, what they find."""

from __future__ import annotations

from typing import Any

COLUMNS = ("code", "name", "severity", "confidence", "family", "layer", "persona", "title")
IN_TEXT = ("code", "name", "severity", "family")
EXACT = ("family", "severity", "confidence", "persona", "layer", "tags")


def rows(catalog: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Every rule, by code; a catalog holds none."""
    from preflight.check.notices import all_rules

    return [
        {
            "code": loaded.rule.code, "name": loaded.rule.name, "severity": loaded.rule.severity,
            "confidence": loaded.rule.confidence, "family": loaded.family, "layer": loaded.rule.layer,
            "persona": loaded.rule.persona, "title": loaded.title, "tags": list(loaded.rule.tags),
        }
        for loaded in all_rules()
    ]  # fmt: skip
