"""The modules of a folder: what is written as one file per kind is found by looking, and no list is kept beside the files."""

from __future__ import annotations

import os
from collections.abc import Collection


def modules_beside(place: str, folder: str = "", *, but: Collection[str] = ()) -> tuple[str, ...]:
    """Return the names of the Python files beside a file, or in a folder beside it, in their order.

    Args:
        place: The ``__file__`` of a module.
        folder: A folder beside it; empty: its own.
        but: Files that are none of the kind, as ``name.py``; those that begin with an underscore never are.
    """
    names = os.listdir(os.path.join(os.path.dirname(os.path.abspath(place)), folder))
    return tuple(sorted(name[:-3] for name in names if name.endswith(".py") and name[0] != "_" and name not in but))
