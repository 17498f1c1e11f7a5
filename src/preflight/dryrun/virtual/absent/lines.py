"""Texts whose lines are taken apart: what their fields are is read off the code that splits them."""

from __future__ import annotations

import ast
import re
from types import FrameType

from preflight.dryrun.virtual.absent import uses
from preflight.dryrun.virtual.absent.formats import ROWS, words

_PATH = re.compile(r"path|file|im(a)?g|name|wav|audio|pic", re.IGNORECASE)
_SOUND = re.compile(r"wav|audio|sound|speech", re.IGNORECASE)
_CLASS = re.compile(r"label|class|target|cls|category", re.IGNORECASE)
GROUP = 8
"""Lines that share their first number, as those of a user or a document do."""


def text(frame: FrameType) -> str | None:
    """Return lines of the fields that code splits them into, or None where it does not."""
    inside, held = uses.aliases(frame)
    rows = set(held)
    for node in ast.walk(inside):
        if isinstance(node, (ast.For, ast.comprehension)) and rows & uses.variables(node.iter):
            rows |= uses.variables(node.target)
    fields, separator = _fields(inside, rows)
    if not fields:
        return None
    numbers = _numbers(inside)
    # Rows of numbers without order would tire loops that look for what a group does not have: ids go round.
    return (
        "\n".join(
            separator.join(
                _value(name, kind or numbers.get(name), place, row) for place, (name, kind) in enumerate(fields)
            )
            for row in range(ROWS)
        )
        + "\n"
    )


def _fields(inside: ast.AST, rows: set[str]) -> tuple[list[tuple[str, str | None]], str]:
    """Return the names of the fields, the type that the split gives them at once, and what lies between them."""
    for node in ast.walk(inside):
        if not isinstance(node, ast.Assign):
            continue
        split = next((call for call in _splits(node.value) if rows & uses.variables(call)), None)
        if split is None:
            continue
        argument = split.args[0] if split.args else None
        separator = argument.value if isinstance(argument, ast.Constant) and isinstance(argument.value, str) else " "
        target = node.targets[0]
        given = next((n for n in uses.called(node.value) if n in ("int", "float")), None)
        if "map" in uses.called(node.value):
            given = next((n for n in uses.variables(node.value) if n in ("int", "float")), given)
        if isinstance(target, ast.Tuple) and all(isinstance(part, ast.Name) for part in target.elts):
            return [(part.id, given) for part in target.elts if isinstance(part, ast.Name)], separator
        if isinstance(target, ast.Name):
            count = _reach(inside, target.id)
            return [(f"{target.id}[{place}]", given) for place in range(count)] if count else [], separator
    return [], " "


def _splits(node: ast.AST) -> list[ast.Call]:
    return [
        part
        for part in ast.walk(node)
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == "split"
    ]


def _reach(inside: ast.AST, name: str) -> int:
    """Return how many fields a list must have for what is taken of it."""
    places = [
        node.slice.value
        for node in ast.walk(inside)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, int)
    ]
    return max(places) + 1 if places else 0


def _numbers(inside: ast.AST) -> dict[str, str]:
    """Return what is made a number of: the text of the argument, and its type."""
    return {
        ast.unparse(node.args[0]): node.func.id
        for node in ast.walk(inside)
        if isinstance(node, ast.Call)
        and node.args
        and isinstance(node.func, ast.Name)
        and node.func.id in ("int", "float")
    }


def _value(name: str, kind: str | None, place: int, row: int) -> str:
    if kind == "float":
        return f"{(row * 37 % 100) / 100}"
    if kind == "int":
        if _CLASS.search(name):
            return str(row % 10)
        return str(1 + row // GROUP) if place == 0 else str(1 + (row * 7919 + place * 104_729) % (ROWS // GROUP))
    if _PATH.search(name):
        return f"train_{row:04d}{'.wav' if _SOUND.search(name) else '.jpg'}"
    return words(8, row).strip()
