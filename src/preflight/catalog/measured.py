"""Published measurements, as they were read: one CSV file per table, one line per run.

``memory``: peak bytes of one GPU. ``fits_oom``: runs that ran out, and the largest batch that fitted.
``throughput``: seconds of a step or tokens per second. ``vtrain_a100_*``: times of an iteration.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from preflight.catalog.files import SHIPPED
from preflight.errors import CatalogError

MEASUREMENTS, SUFFIX = "measurements", ".csv"
Row = Mapping[str, str]


def tables(folder: str | None = None) -> tuple[str, ...]:
    """Return the names of the tables of measurements that are shipped, or that lie in a folder of one's own."""
    entries = os.listdir(folder or os.path.join(SHIPPED, MEASUREMENTS))
    return tuple(sorted(entry[: -len(SUFFIX)] for entry in entries if entry.endswith(SUFFIX)))


def measured_rows(table: str, folder: str | None = None) -> list[Row]:
    """Return the rows of a table; an empty cell means that the source does not say.

    A table that is one source's own bears that source's name (``vtrain_a100_singlenode``): its rows get it, with
    dashes, as ``source``, and the line as ``id``.

    Raises:
        CatalogError: There is no such table.
    """
    import csv

    path = os.path.join(folder or os.path.join(SHIPPED, MEASUREMENTS), table + SUFFIX)
    try:
        with open(path, encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    except FileNotFoundError:
        raise CatalogError(f"no table of measurements is called {table!r}", hint=f"{path} is not there") from None
    source = table.replace("_", "-")
    return [{"source": source, "id": f"{source}-{line:04}"} | row for line, row in enumerate(rows, start=1)]
