"""The table of the models."""

from __future__ import annotations

from written import listed, table


def model_page() -> str:
    """Return the table of the models."""
    rows: list[tuple[object, ...]] = [
        (f"`{model['name']}`", model["family"], f"{model['parameters']:,}", model["library"], model["class_name"])
        for model in listed("models")
    ]
    return (
        "# Models\n\nWritten by `make docs` from the catalog.\n"
        "Parameters are counted exactly, tied ones once; the tests compare each with the class that is named.\n"
        "Where the widths were read stands in the file of the model, `src/preflight/catalog/models/NAME.toml`.\n\n"
        + table(("name", "family", "parameters", "library", "class"), rows)
    )


def pages() -> dict[str, str]:
    """Return the page by its path in the reference."""
    return {"models.md": model_page()}
