"""The index of the failure signatures, and a page for each."""

from __future__ import annotations

import importlib

from written import listed, table


def pages() -> dict[str, str]:
    """Return the index of the failure signatures, and a page for each."""
    pages = importlib.import_module("preflight.cli.parts.signature_pages")
    signatures = listed("signatures")
    index = [
        "# Failure signatures\n\nWritten by `make docs` from the files of the catalog.\n"
        "A signature says what a line of a log stands for, and whether it names a cause.\n"
        "`preflight explain ID` prints its page; a user's catalog folder adds more.\n"
        f"There are {len(signatures)}.\n"
    ]
    for family in sorted({one["family"] for one in signatures}):
        rows: list[tuple[object, ...]] = [
            (f"[`{one['name']}`]({one['name'].replace('.', '/')}.md)", one["category"], one["role"], one["title"])
            for one in signatures
            if one["family"] == family
        ]
        index.append(f"## {family}\n\n" + table(("name", "category", "role", "what it says"), rows))
    found = {
        f"signatures/{one['name'].replace('.', '/')}.md": pages.signature_markdown(one["name"]) for one in signatures
    }
    return {"signatures/README.md": "\n".join(index), **found}
