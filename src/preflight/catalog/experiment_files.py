"""Experiments as files: one TOML file each, the file name is the name."""

from __future__ import annotations

import os
from functools import cache

from preflight.catalog.files import Folders, convert, find, names, parse
from preflight.errors import CatalogError
from preflight.vocabulary.experiment import Experiment

KIND = "experiments"


def load_experiments(extra: Folders = ()) -> tuple[Experiment, ...]:
    """Return all experiments, by name; a user's file wins over a shipped one of the same name.

    Raises:
        CatalogError: A file is wrong.
    """
    return tuple(_read(path) for name in names(KIND, extra) if (path := find(KIND, name, extra)) is not None)


@cache
def _read(path: str) -> Experiment:
    content = {"id": os.path.splitext(os.path.basename(path))[0], **parse(path)}
    found = convert(content, Experiment, path)
    for cause, expected in {**found.expects, "otherwise": found.otherwise}.items():
        if len(expected) != len(found.outcomes) or abs(sum(expected) - 1.0) > 1e-6 or min(expected) < 0.0:
            raise CatalogError(f"{path}: {cause}: one probability for each outcome, adding up to 1")
    if found.repeats is not None and found.repeats not in [one.name for one in found.outcomes]:
        raise CatalogError(f"{path}: repeats: no outcome is called {found.repeats!r}")
    return found
