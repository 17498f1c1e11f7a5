"""The index of the relations, and a page for each."""

from __future__ import annotations

import importlib

from written import listed, table


def pages() -> dict[str, str]:
    """Return the index of the relations, and a page for each."""
    pages = importlib.import_module("preflight.cli.parts.relation_pages")
    relations = listed("relations")
    rows: list[tuple[object, ...]] = [
        (f"[`{one['name']}`]({one['name']}.md)", one["severity"], one["compares"], one["learns"], one["title"])
        for one in relations
    ]
    index = (
        "# Relations\n\nWritten by `make docs` from the files of the relations.\n"
        "A relation says what can be held against a recorded training run; `preflight explain NAME` prints its page.\n"
        f"There are {len(relations)}.\n\n"
        + table(("name", "a violation is", "it compares", "it is", "what it says"), rows)
    )
    found = {
        f"relations/{one['name']}.md": pages.relation_markdown(pages.relation_page(one["name"])) for one in relations
    }
    return {"relations/README.md": index, **found}
