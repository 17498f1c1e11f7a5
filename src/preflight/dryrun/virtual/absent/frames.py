"""Tables of pandas that are missing: columns that the call or the code names, with plausible values."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from preflight.dryrun.virtual.absent import callers, records

ROWS = 20_000
"""Rows of a table: code that splits it by date or by user takes thousands."""
_GROUP = 8
"""Rows that share their first number, as those of a user do."""


def install(pandas: Any, owns: Callable[[str], bool], assume: Callable[[str], None]) -> None:
    """Meet missing files of the readers of pandas."""
    for name in ("read_csv", "read_table", "read_json", "read_parquet", "read_excel", "read_feather"):
        setattr(pandas, name, _wrapped(pandas, getattr(pandas, name), owns, assume))


def _wrapped(pandas: Any, plain: Any, owns: Callable[[str], bool], assume: Callable[[str], None]) -> Any:
    def read(path: Any, *args: Any, **kwargs: Any) -> Any:
        there = not isinstance(path, (str, os.PathLike)) or os.path.lexists(path)
        own = None if there else callers.own_frame(owns)
        if own is None:
            return plain(path, *args, **kwargs)
        asked = records.keys(own.f_code.co_filename, records.script())
        names = list(kwargs.get("names") or kwargs.get("columns") or asked)
        if not names:
            raise FileNotFoundError(2, "No such file or directory", os.fspath(path))
        given = kwargs.get("dtype")
        kinds = given if isinstance(given, dict) else dict.fromkeys(names, given)
        made = {
            name: _column(str(name), place, kinds.get(name, kinds.get(place)), bool(kwargs.get("names")))
            for place, name in enumerate(names)
        }
        some = kwargs.get("usecols")
        if isinstance(some, (list, tuple)):
            made = {name: made[name] for place, name in enumerate(names) if place in some or name in some}
        assume(f"{os.fspath(path)} is missing: {ROWS} rows with the columns {', '.join(map(str, made))[:120]}")
        table = pandas.DataFrame(made)
        parsed = kwargs.get("parse_dates")
        for name in parsed if isinstance(parsed, (list, tuple)) else ():
            table[name] = pandas.to_datetime(table[name])
        index = kwargs.get("index_col")
        return (
            table.set_index(names[index] if isinstance(index, int) else index) if index not in (None, False) else table
        )

    return read


def _column(name: str, place: int, kind: Any, numbered: bool) -> list[Any]:
    """Return the values of a column; without a type, a table whose columns the call names is one of ids and ratings."""
    low = name.lower()
    ids = (
        low in ("user", "item")
        or low.endswith(("id", "_idx", "index"))
        or "int" in str(getattr(kind, "__name__", kind))
    )
    if ids and kind is not str:
        if place == 0:
            return [row // _GROUP for row in range(ROWS)]
        return [(row * 7919 + place * 104_729) % (ROWS // _GROUP) for row in range(ROWS)]
    if numbered and low in ("timestamp", "time", "ts"):
        return list(range(ROWS))
    return [records.cell(low, row) for row in range(ROWS)]
