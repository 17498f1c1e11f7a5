"""The sources of measurements that can be put into words: the files of ``rows/``."""

from __future__ import annotations

import importlib
from functools import cache

import msgspec

from preflight.catalog.measured import Row
from preflight.listing import modules_beside
from preflight.plan.validation import rows
from preflight.plan.validation.expressed import CannotExpress, Expressed, cluster_of


@cache
def sources() -> tuple[str, ...]:
    """Return the names of the sources, as rows spell them."""
    return tuple(sorted(name.replace("_", "-") for name in modules_beside(__file__, "rows")))


def express(row: Row) -> Expressed:
    """Return a row in the vocabulary's words, with the usual cluster of its GPUs where its source names no other.

    Raises:
        CannotExpress: With the reason.
    """
    name = row["source"].replace(".", "-")
    if name not in sources():
        raise CannotExpress("batch, length, optimizer or kind of reading not stated")
    module = importlib.import_module(f"{rows.__name__}.{name.replace('-', '_')}")
    found: Expressed = module.express(row)
    return found if found.cluster is not None else msgspec.structs.replace(found, cluster=cluster_of(row))


def express_time(row: Row) -> Expressed:
    """Return what the time of a row was taken of; a source says so where that is not the whole optimizer step.

    Raises:
        CannotExpress: With the reason.
    """
    found = express(row)
    module = importlib.import_module(f"{rows.__name__}.{row['source'].replace('.', '-').replace('-', '_')}")
    timed = getattr(module, "timed", None)
    if timed is None:
        return found
    narrowed: Expressed = timed(row, found)
    return narrowed
