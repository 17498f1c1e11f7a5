"""Decision trees as files: one TOML file each, the file name is the name."""

from __future__ import annotations

import os
from functools import cache

from preflight.catalog.files import Folders, convert, find, names, parse
from preflight.errors import CatalogError, UsageError, nearest
from preflight.vocabulary.tree import Tree

KIND = "trees"


def tree_names(extra: Folders = ()) -> tuple[str, ...]:
    """Return the names of all trees, sorted."""
    return names(KIND, extra)


def load_tree(name: str, extra: Folders = ()) -> Tree:
    """Return one tree.

    Raises:
        CatalogError: Its file is wrong: an answer leads nowhere, or a question is never asked.
        UsageError: There is no such tree.
    """
    path = find(KIND, name, extra)
    if path is None:
        near = nearest(name, tree_names(extra))
        raise UsageError(
            f"no tree is called {name!r}", f"did you mean {near}?" if near else f"one of {', '.join(tree_names(extra))}"
        )
    return _read(path)


@cache
def _read(path: str) -> Tree:
    tree = convert({"id": os.path.splitext(os.path.basename(path))[0], **parse(path)}, Tree, path)
    places = {one.id for one in tree.questions} | {one.id for one in tree.leaves}
    if len(places) != len(tree.questions) + len(tree.leaves) or not tree.questions:
        raise CatalogError(f"{path}: two places bear one name, or there is no question")
    targets = {branch.to for one in tree.questions for branch in one.branches}
    for lost in sorted(targets - places):
        raise CatalogError(f"{path}: an answer leads to {lost!r}, which is not there")
    for unused in sorted(places - targets - {tree.questions[0].id}):
        raise CatalogError(f"{path}: no answer leads to {unused!r}")
    return tree
