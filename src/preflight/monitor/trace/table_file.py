"""Columns of a trace as columns of Parquet, and back, value by value the same.

A value that is not of the type of its column, and a column that is not declared, stand in the column ``odd`` of the row.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from preflight.monitor.collect.columns import TABLES

from .reader import Columns

PLACE = {"process": "INTEGER", "block": "INTEGER"}
"""Columns before those of the kind: the process as a number in ``sealed.json``, and its block."""

_SQL = {"count": "BIGINT", "int": "BIGINT", "float": "DOUBLE", "bool": "BOOLEAN"}
_TYPES: dict[str, frozenset[type]] = {
    "count": frozenset({int, type(None)}),
    "int": frozenset({int, type(None)}),
    "float": frozenset({float, type(None)}),
    "bool": frozenset({bool, type(None)}),
    "word": frozenset({str, type(None)}),
    "text": frozenset({str, type(None)}),
}
_FILL: dict[str, Any] = {"count": 0, "int": 0, "float": 0.0, "bool": False}
_NUMPY = {"count": "int64", "int": "int64", "float": "float64", "bool": "bool"}
ABSENT, NAN = 1, 2


def sql_columns(kind: str) -> dict[str, str]:
    """Return the columns of a Parquet file with their types in SQL."""
    declared = {name: _SQL.get(type_, "VARCHAR") for name, type_ in TABLES.get(kind, {}).items()}
    return {**PLACE, **declared, "odd": "VARCHAR"}


def arrays(kind: str, process: int, block: int, columns: Columns) -> tuple[dict[str, list[Any]], dict[str, list[int]]]:
    """Return the values to be stored, and for the columns that need it which are absent or NaN.

    DuckDB takes NaN for absent in what it is given, so that both are told beside the values.
    """
    rows = len(next(iter(columns.values()), ()))
    values: dict[str, list[Any]] = {"process": [process] * rows, "block": [block] * rows}
    marks: dict[str, list[int]] = {}
    odd: dict[int, dict[str, Any]] = {}
    declared = TABLES.get(kind, {})
    for name, column in columns.items():
        if name not in declared:
            for row, value in enumerate(column):
                odd.setdefault(row, {})[name] = value
            continue
        values[name] = _stored(name, declared[name], column, odd, marks)
    values["odd"] = [_text(odd[row]) if row in odd else "" for row in range(rows)]
    if odd:
        marks["odd"] = [0 if row in odd else ABSENT for row in range(rows)]
    else:
        marks["odd"] = [ABSENT] * rows
    return values, marks


def _stored(
    name: str, type_: str, column: list[Any], odd: dict[int, dict[str, Any]], marks: dict[str, list[int]]
) -> list[Any]:
    """Return a column as DuckDB takes it: each value of the type, and absent ones marked."""
    allowed = _TYPES.get(type_)
    if allowed is None:
        if None in column:
            marks[name] = [ABSENT if value is None else 0 for value in column]
        return ["" if value is None else _text(value) for value in column]
    fits = _FITS[type_]
    fill = _FILL.get(type_, "")
    if not set(map(type, column)) <= allowed or not fits(column):
        kept: list[Any] = []
        for row, value in enumerate(column):
            if value is None or (type(value) in allowed and fits([value])):
                kept.append(value)
            else:
                odd.setdefault(row, {})[name] = value
                kept.append(None)
        column = kept
    has_none = None in column
    if type_ == "float" and any(value != value for value in column):
        marks[name] = [ABSENT if value is None else NAN if value != value else 0 for value in column]
        return [fill if value is None or value != value else value for value in column]
    if has_none:
        marks[name] = [ABSENT if value is None else 0 for value in column]
        return [fill if value is None else value for value in column]
    return column


def _integers_fit(column: list[Any]) -> bool:
    present = [value for value in column if value is not None]
    return not present or (min(present) >= -(2**63) and max(present) < 2**63)


def _texts_fit(column: list[Any]) -> bool:
    """Whether all texts can be written as UTF-8, which half a surrogate pair cannot, and hold no zero."""
    joined = "".join([value for value in column if value is not None])
    try:
        joined.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return "\0" not in joined


def _always(_: list[Any]) -> bool:
    return True


_FITS: dict[str, Callable[[list[Any]], bool]] = {
    "count": _integers_fit,
    "int": _integers_fit,
    "float": _always,
    "bool": _always,
    "word": _texts_fit,
    "text": _texts_fit,
}


def _text(value: Any) -> str:
    """Return the JSON of a value, with NaN and infinity as Python writes them."""
    try:
        text = msgspec.json.encode(value)
        if b"null" not in text and b"\\u0000" not in text:
            return text.decode("utf-8")
    except (ValueError, TypeError, OverflowError, RecursionError):
        pass
    return json.dumps(value, separators=(",", ":"))


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return json.loads(text)


def to_numpy(kind: str, values: dict[str, list[Any]], marks: dict[str, list[int]]) -> tuple[dict[str, Any], str]:
    """Return arrays for DuckDB and the expressions that make the columns from them."""
    import numpy

    declared = TABLES.get(kind, {})
    given: dict[str, Any] = {}
    expressions: list[str] = []
    for name, type_ in sql_columns(kind).items():
        if name in PLACE:
            given[name] = numpy.array(values[name], dtype="int32")
        elif name in declared and declared[name] in _NUMPY:
            given[name] = numpy.array(values[name], dtype=_NUMPY[declared[name]])
        else:
            given[name] = numpy.array(values[name], dtype=object)
        if name in marks:
            given[f"{name} mark"] = numpy.array(marks[name], dtype="int8")
            nan = f" WHEN {NAN} THEN 'nan'::DOUBLE" if type_ == "DOUBLE" else ""
            expressions.append(f'CASE "{name} mark" WHEN {ABSENT} THEN NULL{nan} ELSE "{name}" END')
        else:
            expressions.append(f'"{name}"')
    return given, ", ".join(expressions)


def from_lists(kind: str, stored: dict[str, list[Any]], known: dict[str, Any]) -> Columns:
    """Return the columns of a trace from those of a Parquet file.

    Args:
        kind: The kind of the rows.
        stored: The values as DuckDB gave them, without the columns that say of which block they are.
        known: Decoded texts, which are decoded once.
    """
    declared = TABLES.get(kind, {})
    columns: Columns = {}
    for name, type_ in declared.items():
        column = stored[name]
        if type_ not in _TYPES:
            column = [None if text is None else _known(text, known) for text in column]
        columns[name] = column
    for row, text in enumerate(stored["odd"]):
        if text is not None:
            for name, value in _value(text).items():
                if name not in columns:
                    columns[name] = [None] * len(stored["odd"])
                columns[name][row] = value
    return columns


REMEMBERED = 4096
LONGEST_REMEMBERED = 200


def _known(text: str, known: dict[str, Any]) -> Any:
    if len(text) > LONGEST_REMEMBERED:
        return _value(text)
    if text not in known:
        if len(known) >= REMEMBERED:
            known.clear()
        known[text] = _value(text)
    return known[text]
