"""The reference of the JSON report."""

from __future__ import annotations

import importlib
import inspect
import re
import typing
from typing import Any

import msgspec

from written import table


def report_page() -> str:
    """Return the reference of the JSON report: every value, from the declarations of the vocabulary."""
    report = importlib.import_module("preflight.vocabulary.report")
    structs: list[type[msgspec.Struct]] = []
    _collect(report.Report, structs)
    parts = [
        "# The report as JSON\n\nWritten by `make docs` from the vocabulary.\n"
        f"`preflight check --format json` writes one `Report`; its `schema` is `{report.SCHEMA}`.\n"
        "A field is added without notice; one is removed or renamed only with a new schema.\n"
        "Bytes are numbers of bytes; a value that is not known is `null`, with its reason beside it.\n"
    ]
    for struct in structs:
        said = (struct.__doc__ or "").strip().partition("\n\n")[0]
        explained = dict(re.findall(r"(?m)^ {4}(\w+): (.+)$", inspect.cleandoc(struct.__doc__ or "")))
        hints = typing.get_type_hints(struct)
        rows: list[tuple[object, ...]] = [
            (f"`{field.encode_name}`", f"`{_type(hints[field.name])}`", explained.get(field.name))
            for field in msgspec.structs.fields(struct)
        ]
        parts.append(f"## {struct.__name__}\n\n{' '.join(said.split())}\n\n" + table(("field", "type", ""), rows))
    return "\n".join(parts)


def _collect(kind: Any, found: list[type[msgspec.Struct]]) -> None:
    """Add the structs that a type is made of, in the order in which they are met."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind not in found:
        found.append(kind)
        for hint in typing.get_type_hints(kind).values():
            _collect(hint, found)
    for inner in typing.get_args(kind):
        _collect(inner, found)


def _type(hint: Any) -> str:
    """Return a type as it is written in JSON's words."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return " or ".join(f'"{value}"' for value in inner)
    if origin in (tuple, list):
        return f"list of {_type(inner[0])}"
    if origin is dict:
        return f"object of {_type(inner[1])}"
    if inner:
        return " or ".join(dict.fromkeys(map(_type, inner)))
    words = {str: "text", int: "integer", float: "number", bool: "boolean", type(None): "null", Any: "any"}
    return words.get(hint) or str(getattr(hint, "__name__", hint))


def pages() -> dict[str, str]:
    """Return the page by its path in the reference."""
    return {"report.md": report_page()}
