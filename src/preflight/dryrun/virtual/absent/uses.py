"""What the person's code does with what it reads: endings, columns, dimensions and names, as far as its text says."""

from __future__ import annotations

import ast
import string
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import FrameType
from typing import Any

MANY = 64
"""Columns where all but some are taken together."""
_LISTINGS = frozenset(("listdir", "scandir", "glob", "iglob", "rglob", "iterdir", "walk"))


@lru_cache(maxsize=512)
def tree(filename: str) -> ast.Module:
    """Return the syntax of a file; an empty one where it cannot be read."""
    try:
        with open(filename, "rb") as file:
            return ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])


def function(frame: FrameType) -> ast.AST:
    """Return the innermost function that a frame runs, or the module; comprehensions belong to what holds them."""
    found: ast.AST = tree(frame.f_code.co_filename)
    for node in ast.walk(found):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
            if first <= frame.f_lineno <= (node.end_lineno or first) and (
                isinstance(found, ast.Module) or node.lineno > found.lineno  # type: ignore[attr-defined]
            ):
                found = node
    return found


def held_back(module: ast.Module) -> set[ast.AST]:
    """Return what runs under a handler that takes every error and goes on."""
    found: set[ast.AST] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Try) and any(_goes_on(handler) for handler in node.handlers):
            found.update(inner for part in node.body for inner in ast.walk(part))
    return found


def _goes_on(handler: ast.ExceptHandler) -> bool:
    every = handler.type is None or _name(handler.type) in ("Exception", "BaseException", "AssertionError")
    return every and not any(isinstance(inner, ast.Raise) for part in handler.body for inner in ast.walk(part))


def own_modules(owns: Callable[[str], bool]) -> Iterator[str]:
    """Yield the files of the person's own modules that are loaded, the script first."""
    for module in list(sys.modules.values()):
        name = getattr(module, "__file__", None)
        if isinstance(name, str) and name.endswith(".py") and owns(name):
            yield name


def constants(node: ast.AST) -> Iterator[str]:
    """Yield the strings of a piece of code."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def called(node: ast.AST) -> list[str]:
    """Return the last names of what a piece of code calls."""
    found = []
    for part in ast.walk(node):
        if isinstance(part, ast.Call):
            of = part.func
            found.append(of.attr if isinstance(of, ast.Attribute) else of.id if isinstance(of, ast.Name) else "")
    return found


def wants_folders(frame: FrameType) -> bool:
    """Whether code that lists a folder expects folders in it: it asks which of them are, or lists them in turn."""
    inside, listed = aliases(frame)
    names: set[str] = set()
    for node in ast.walk(inside):
        if isinstance(node, (ast.For, ast.comprehension)) and (
            listed & variables(node.iter) or _covers(node.iter, frame.f_lineno)
        ):
            names |= variables(node.target)
    for node in ast.walk(inside):
        if not isinstance(node, ast.Call):
            continue
        name = called(node)[0]
        if name == "walk" and _covers(node, frame.f_lineno):
            return True
        # A pattern that goes on behind a name finds what belongs to a file: its mask, its text.
        deeper = "glob" not in name or any(text.startswith("*") or "/*" in text for text in constants(node))
        if (name in _LISTINGS or name in ("isdir", "is_dir")) and deeper and names & variables(node):
            return True
    return False


def variables(node: ast.AST) -> set[str]:
    """Return the variables of a piece of code."""
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _covers(node: ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno) and bool(_LISTINGS & set(called(node)))


def number(owns: Callable[[str], bool], names: tuple[str, ...]) -> int | None:
    """Return the whole number that the person's code gives to one of some names, or None.

    Args:
        owns: Whether a file is the person's own.
        names: Names of variables, keywords or keys.
    """
    for filename in own_modules(owns):
        for node in ast.walk(tree(filename)):
            given: Iterator[tuple[Any, Any]] = iter(())
            if isinstance(node, ast.Assign):
                given = ((_name(target), node.value) for target in node.targets)
            elif isinstance(node, (ast.keyword, ast.AnnAssign)):
                given = iter([(node.arg if isinstance(node, ast.keyword) else _name(node.target), node.value)])
            elif isinstance(node, ast.Dict):
                given = (
                    (getattr(key, "value", None), value) for key, value in zip(node.keys, node.values, strict=True)
                )
            for name, value in given:
                if name in names and isinstance(value, ast.Constant) and type(value.value) is int:
                    return value.value
    return None


def _name(node: ast.AST) -> str | None:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def aliases(frame: FrameType) -> tuple[ast.AST, set[str]]:
    """Return the function, and the names that hold what its present statement reads or what is made of it."""
    inside = function(frame)
    names: set[str] = set()
    for node in ast.walk(inside):
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.Return)) and node.lineno <= frame.f_lineno <= (
            node.end_lineno or 0
        ):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names.update(filter(None, map(_base, targets)))
        elif isinstance(node, (ast.With, ast.AsyncWith)) and node.lineno <= frame.f_lineno <= node.body[0].lineno:
            names.update(filter(None, (_base(item.optional_vars) for item in node.items)))
    for node in sorted((n for n in ast.walk(inside) if isinstance(n, ast.Assign)), key=lambda n: n.lineno):
        if names & variables(node.value):
            names.update(filter(None, map(_base, node.targets)))
    return inside, names


def _base(target: ast.AST | None) -> str | None:
    """Return the variable that is assigned to, or whose part is."""
    while isinstance(target, ast.Subscript):
        target = target.value
    return target.id if isinstance(target, ast.Name) else None


def columns(frame: FrameType) -> int | None:
    """Return how many columns a table must have for what is taken of it, or None where nothing is."""
    inside, names = aliases(frame)
    most = 0
    for node in ast.walk(inside):
        if isinstance(node, ast.Subscript) and _name(node.value) in names:
            pair = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
            most = max(most, _reach(pair[1]) if len(pair) == 2 else 0)
    return max(most, *_items(inside, names)) or None


def _items(inside: ast.AST, names: set[str]) -> tuple[int, int]:
    """Return how far into the rows of a table code goes that takes them one by one."""
    rows: set[str] = set()
    unpacked = 0
    for node in ast.walk(inside):
        target: ast.AST | None = None
        if isinstance(node, (ast.For, ast.comprehension)) and _name(node.iter) in names:
            target = node.target
        elif isinstance(node, ast.Call) and _name(node.func) == "map" and len(node.args) == 2:
            function = node.args[0]
            if _name(node.args[1]) in names and isinstance(function, ast.Lambda):
                target = ast.Name(function.args.args[0].arg) if function.args.args else None
        if isinstance(target, ast.Tuple):
            unpacked = max(unpacked, len(target.elts))
        elif isinstance(target, ast.Name):
            rows.add(target.id)
    reach = [
        _reach(node.slice) for node in ast.walk(inside) if isinstance(node, ast.Subscript) and _name(node.value) in rows
    ]
    return unpacked, max(reach, default=0)


def _reach(index: ast.expr) -> int:
    if isinstance(index, ast.Slice):
        low, high = _whole(index.lower), _whole(index.upper)
        if high is not None and high > 0:
            return high
        return 0 if low is None and high is None else (MANY if high is not None else (low or 0) + 1)
    at = _whole(index)
    return 0 if at is None else at + 1 if at >= 0 else 1 - at


def _whole(node: ast.expr | None) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _whole(node.operand)
        return None if inner is None else -inner
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def dimensions(frame: FrameType) -> int:
    """Return how many dimensions an array must have for what is taken of it; 1 where nothing tells."""
    inside, names = aliases(frame)
    most = 1
    for node in ast.walk(inside):
        if isinstance(node, ast.Subscript):
            if _name(node.value) in names and isinstance(node.slice, ast.Tuple):
                most = max(most, len(node.slice.elts))
            shape = node.value
            if isinstance(shape, ast.Attribute) and shape.attr == "shape" and _name(shape.value) in names:
                most = max(most, _reach(node.slice))
    return most


def keys(filename: str) -> list[str]:
    """Return the names by which a file asks for parts of its records."""
    found: dict[str, None] = {}
    for node in ast.walk(tree(filename)):
        named: list[ast.expr | None] = []
        if isinstance(node, ast.Subscript):
            named = [node.slice]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            named = list(node.args[:1])
        elif isinstance(node, (ast.List, ast.Tuple)):
            named = list(node.elts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "{" in node.value:
            found.update(dict.fromkeys(_fields(node.value)))
        for item in named:
            if isinstance(item, ast.Constant) and isinstance(item.value, str) and item.value.isidentifier():
                found[item.value] = None
    return list(found)


def lists(filename: str) -> set[str]:
    """Return the names of those parts of records that a file goes through one by one."""
    held: dict[str, str] = {}
    found: set[str] = set()
    for node in ast.walk(tree(filename)):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            key = _key(node.value)
            if key is not None:
                held[node.targets[0].id] = key
    for node in ast.walk(tree(filename)):
        if isinstance(node, (ast.For, ast.comprehension)):
            over = node.iter
            if isinstance(over, ast.Call) and _name(over.func) == "enumerate" and over.args:
                over = over.args[0]
            key = held.get(over.id) if isinstance(over, ast.Name) else _key(over)
            if key is not None:
                found.add(key)
    return found


def _key(node: ast.expr) -> str | None:
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        return node.slice.value
    return None


def _fields(template: str) -> list[str]:
    """Return the names that a template is filled with."""
    try:
        return [name for _, name, _, _ in string.Formatter().parse(template) if name and name.isidentifier()]
    except ValueError:
        return []


def holds_names(frame: FrameType) -> bool:
    """Whether the function takes what it reads apart by names: a record, not a list of them."""
    inside, names = aliases(frame)
    for node in ast.walk(inside):
        if isinstance(node, ast.Subscript) and _key(node) is not None and not isinstance(node.value, ast.Subscript):
            if names & variables(node.value):
                return True
        elif (
            isinstance(node, ast.Attribute) and node.attr in ("items", "keys", "values") and _name(node.value) in names
        ):
            return True
    return False
