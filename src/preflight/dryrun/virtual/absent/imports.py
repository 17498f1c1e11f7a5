"""Who imports a package that is missing, and whether its absence is provided for."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import FrameType

from preflight.dryrun.virtual.absent.uses import tree

_MISSING = {"ImportError", "ModuleNotFoundError", "PackageNotFoundError"}
_EVERYTHING = {"Exception", "BaseException"}


def importing(frame: FrameType | None, ours: str) -> FrameType | None:
    """Return the frame whose import is under way; None where something only asks whether the package is there."""
    while frame is not None and ("importlib" in frame.f_code.co_filename or frame.f_code.co_filename == ours):
        if frame.f_code.co_filename.endswith("util.py"):
            return None
        frame = frame.f_back
    return frame


@lru_cache(maxsize=512)
def must_work(filename: str) -> frozenset[int]:
    """Return the lines of a file's imports that nothing guards."""
    lines: set[int] = set()
    inner: list[ast.AST] = [tree(filename)]
    while inner:
        node = inner.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, ast.Try) and any(handles(handler) for handler in node.handlers):
            inner += [*node.orelse, *node.finalbody]
        elif not isinstance(node, ast.expr):
            inner += ast.iter_child_nodes(node)
    return frozenset(lines)


@lru_cache(maxsize=512)
def may_fail(filename: str, by_name: bool = False) -> frozenset[int]:
    """Return the lines of a file at which a missing package is provided for.

    Args:
        filename: The file.
        by_name: Count only handlers that name the error of an import.
    """
    lines: set[int] = set()
    for node in ast.walk(tree(filename)):
        if (isinstance(node, ast.Try) and any(handles(handler, by_name) for handler in node.handlers)) or (
            isinstance(node, (ast.With, ast.AsyncWith)) and _suppresses(node, by_name)
        ):
            lines.update(n.lineno for part in node.body for n in ast.walk(part) if hasattr(n, "lineno"))
    return frozenset(lines)


def handles(handler: ast.ExceptHandler, by_name: bool = False) -> bool:
    """Whether a handler takes the error of an import and goes on."""
    if handler.type is None:
        return not by_name
    wanted = _MISSING if by_name else _MISSING | _EVERYTHING
    return bool(_names(handler.type) & wanted) and not any(
        isinstance(n, ast.Raise) for part in handler.body for n in ast.walk(part)
    )


def _suppresses(node: ast.With | ast.AsyncWith, by_name: bool) -> bool:
    wanted = _MISSING if by_name else _MISSING | _EVERYTHING
    return any("suppress" in (names := _names(item.context_expr)) and bool(names & wanted) for item in node.items)


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} | {
        n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)
    }


def provided_for(frame: FrameType | None) -> bool:
    """Whether anything between an import and the start of the run takes its failure.

    A handler of everything counts around an import; around a call, only one that names the error of an import does:
    ``try: main() except Exception`` is no provision for a package that is missing.
    """
    inner = True
    while frame is not None:
        name = frame.f_code.co_filename
        passes = name.startswith("<") or "importlib" in name
        if not passes and frame.f_lineno in may_fail(name, by_name=not inner):
            return True
        inner = passes
        frame = frame.f_back
    return False


def takes_all(frame: FrameType) -> bool:
    """Whether an import is ``from package import *``, whose names nobody knows."""
    return any(
        isinstance(node, ast.ImportFrom)
        and node.lineno <= frame.f_lineno <= (node.end_lineno or node.lineno)
        and any(alias.name == "*" for alias in node.names)
        for node in ast.walk(tree(frame.f_code.co_filename))
    )


def statements(filename: str, line: int) -> Iterator[ast.stmt]:
    """Yield the statements that a line is part of, the outermost first."""
    for node in ast.walk(tree(filename)):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            yield node


def owned(owns: Callable[[str], bool]) -> FrameType | None:
    """Return the nearest frame of the person's own code, whatever lies between."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not owns(frame.f_code.co_filename):
        frame = frame.f_back
    return frame
