"""Checklists as files: one TOML file each, the file name is the name; also one's own, by path."""

from __future__ import annotations

import os
from functools import cache

from preflight.catalog.files import Folders, convert, find, names, parse
from preflight.errors import CatalogError, UsageError, nearest
from preflight.vocabulary.checklist import Checklist

KIND = "checklists"


def checklist_names(extra: Folders = ()) -> tuple[str, ...]:
    """Return the names of all checklists, sorted."""
    return names(KIND, extra)


def load_checklist(name: str, extra: Folders = ()) -> Checklist:
    """Return a checklist by its name, or one's own by its path.

    Raises:
        CatalogError: Its file is wrong.
        UsageError: There is no such checklist.
    """
    if name.endswith(".toml"):
        return _read(os.path.abspath(name))
    if os.path.sep in name or os.path.isfile(name):
        raise UsageError(f"{name}: is no checklist", "a list of your own is a TOML file: ./mine.toml")
    path = find(KIND, name, extra)
    if path is None:
        known = checklist_names(extra)
        near = nearest(name, known)
        raise UsageError(
            f"no checklist is called {name!r}", f"did you mean {near}?" if near else f"one of {', '.join(known)}"
        )
    return _read(path)


@cache
def _read(path: str) -> Checklist:
    found = convert({"id": os.path.splitext(os.path.basename(path))[0], **parse(path)}, Checklist, path)
    ids = [item.id for item in found.items]
    twice = sorted({one for one in ids if ids.count(one) > 1})
    if twice or not ids:
        raise CatalogError(f"{path}: {'two items are called ' + twice[0] if twice else 'there is no item'}")
    return found
