"""What the catalog holds for the time after a failure: remedies, experiments, checklists, decision trees."""

from __future__ import annotations

import importlib

from written import explained, listed, table

Row = tuple[object, ...]


def pages() -> dict[str, str]:
    """Return an index and the pages of each kind."""
    return {**_remedies(), **_experiments(), **_checklists(), **_trees()}


def _link(name: str) -> str:
    return f"[`{name}`]({name}.md)"


def _remedies() -> dict[str, str]:
    """Return the index of the remedies by what they are against, and a page for each."""
    remedies = listed("remedies")
    index = [
        "# Remedies\n\nWritten by `make docs` from the files of the catalog.\n"
        "A remedy is what can be done against a failure: what it changes, what it costs, how it is taken back.\n"
        "[Remedies, shown and applied](../../guides/investigate-fix.md) says how they are used.\n"
        f"There are {len(remedies)}.\n"
    ]
    for category in sorted({one["category"] for one in remedies}):
        rows: list[Row] = [
            (_link(one["name"]), one["title"], one["kind"], one["danger"])
            for one in remedies
            if one["category"] == category
        ]
        index.append(f"## {category}\n\n" + table(("name", "what is done", "kind", "danger"), rows))
    found = {f"remedies/{one['name']}.md": explained(one["name"]) for one in remedies}
    return {"remedies/README.md": "\n".join(index), **found}


def _experiments() -> dict[str, str]:
    """Return the index of the experiments, the short ones first, and a page for each."""
    every = importlib.import_module("preflight.catalog.experiment_files").load_experiments()
    rows: list[Row] = [
        (_link(one.id), one.title, one.minutes, one.danger) for one in sorted(every, key=lambda one: one.minutes)
    ]
    index = (
        "# Experiments\n\nWritten by `make docs` from the files of the catalog.\n"
        "An experiment tells causes apart: the same run again with one thing changed, or a look at something.\n"
        "[Find where a failure begins](../../guides/investigate-bisect.md) says how the next one is chosen.\n"
        f"There are {len(rows)}.\n\n" + table(("name", "what is changed", "minutes", "danger"), rows)
    )
    return {"experiments/README.md": index, **{f"experiments/{one.id}.md": explained(one.id) for one in every}}


def _checklists() -> dict[str, str]:
    """Return the index of the checklists, and a page for each."""
    rows: list[Row] = [
        (_link(one["name"]), one["title"], one["items"], one["critical"], one["by_a_person"])
        for one in listed("checklists")
    ]
    index = (
        "# Checklists\n\nWritten by `make docs` from the files of the catalog.\n"
        "What has to be so before a run; [most items are checked, not ticked](../../guides/investigate-checklist.md).\n\n"
        + table(("name", "when", "items", "critical", "answered by a person"), rows)
    )
    names = (one["name"] for one in listed("checklists"))
    return {"checklists/README.md": index, **{f"checklists/{name}.md": explained(name) for name in names}}


def _trees() -> dict[str, str]:
    """Return the index of the decision trees, and a page for each."""
    files = importlib.import_module("preflight.catalog.tree_files")
    rows: list[Row] = [(_link(name), files.load_tree(name).title) for name in files.tree_names()]
    index = (
        "# Decision trees\n\nWritten by `make docs` from the files of the catalog.\n"
        "Questions in the order in which they part causes best; [a tree walks itself](../../guides/investigate-trees.md) "
        "as far as logs answer.\n\n" + table(("name", "for"), rows)
    )
    return {"trees/README.md": index, **{f"trees/{name}.md": explained(name) for name in files.tree_names()}}
