"""The person's own modules that are loaded, as syntax trees."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from preflight.dryrun.virtual.progress import Progress


def own_trees(progress: Progress) -> Iterator[tuple[str, ast.Module]]:
    """Yield the file and the tree of each loaded module of the person's own; one that cannot be read is left out."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None) or ""
        if not progress.owns(file):
            continue
        try:
            with open(file, "rb") as source:
                tree = ast.parse(source.read())
        except (OSError, SyntaxError, ValueError):
            continue
        yield file, tree
