"""What tells causes apart: the names that signatures use in ``discriminated_by``, read from ``observations.toml``."""

from __future__ import annotations

import os
from functools import cache
from typing import Literal

import msgspec

from preflight.catalog import files
from preflight.errors import CatalogError

PATH = os.path.join(files.SHIPPED, "observations.toml")
ORDER = ("log", "node", "run")
"""Where something is looked for, the cheapest first."""


class LookedFor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that tells causes apart.

    Attributes:
        look: What to look at, to be read behind "look at".
        where: ``log``: in what was collected; ``node``: one command on a node; ``run``: the run has to be repeated or go on.
        command: The command, where one shows it.
    """

    look: str
    where: Literal["log", "node", "run"]
    command: str | None = None

    @property
    def rank(self) -> int:
        """Its place from cheap (0) to dear."""
        return ORDER.index(self.where)


@cache
def looked_for() -> dict[str, LookedFor]:
    """Return everything that can be looked at, by name.

    Raises:
        CatalogError: The table is damaged.
    """
    content = files.parse(PATH)
    del content["sources"]
    try:
        return msgspec.convert(content, type=dict[str, LookedFor])
    except msgspec.ValidationError as error:
        raise CatalogError(f"{PATH}: {error}") from error
