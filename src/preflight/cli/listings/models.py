"""The models of the catalog: family, exact number of parameters."""

from __future__ import annotations

from typing import Any

COLUMNS = ("name", "family", "parameters", "library", "class_name")
IN_TEXT = ("name", "family", "parameters", "class_name")
EXACT = ("family", "library")


def rows(catalog: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Every model, by name, those of the user's catalog too."""
    from preflight.catalog.architectures import load_model, model_names

    models = (load_model(name, extra=catalog) for name in model_names(catalog))
    return [{column: getattr(model, column, None) for column in COLUMNS} for model in models]
