"""Remedies as files: one TOML file each, the file name is the name."""

from __future__ import annotations

import os
from functools import cache

from preflight.catalog.files import Folders, convert, find, names, parse
from preflight.vocabulary.remedy import Remedy

KIND = "remedies"


def remedy_names(extra: Folders = ()) -> tuple[str, ...]:
    """Return the names of all remedies, sorted, without opening a file."""
    return names(KIND, extra)


def load_remedy(name: str, extra: Folders = ()) -> Remedy:
    """Return one remedy.

    Raises:
        CatalogError: Its file is wrong.
        UsageError: There is no such remedy.
    """
    path = find(KIND, name, extra)
    if path is None:
        from preflight.errors import UsageError, nearest

        known = remedy_names(extra)
        near = nearest(name, known)
        raise UsageError(
            f"no remedy is called {name!r}", f"did you mean {near}?" if near else "preflight investigate fix lists them"
        )
    return _read(path)


def load_remedies(extra: Folders = ()) -> tuple[Remedy, ...]:
    """Return all remedies, by name; a user's file wins over a shipped one of the same name.

    Raises:
        CatalogError: A file is wrong.
    """
    return tuple(load_remedy(name, extra) for name in remedy_names(extra))


@cache
def _read(path: str) -> Remedy:
    content = {"id": os.path.splitext(os.path.basename(path))[0], **parse(path)}
    return convert(content, Remedy, path)
