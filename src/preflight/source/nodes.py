"""Walks over syntax trees: every node below one, by kind, and whether one node lies in another."""

from __future__ import annotations

import ast

# Load, Store, + and their kin: half of all nodes, single objects shared by all trees, of no interest to anyone.
_MARKS = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)


def walk(node: ast.AST) -> list[ast.AST]:
    """A node and all below it, outer ones first, in the order of ``ast.walk``, without operators and contexts."""
    found = [node]
    for current in found:  # grows while it is gone through
        parts = current.__dict__
        for name in current._fields:
            part = parts.get(name)
            if isinstance(part, list):
                found += [item for item in part if isinstance(item, ast.AST) and not isinstance(item, _MARKS)]
            elif isinstance(part, ast.AST) and not isinstance(part, _MARKS):
                found.append(part)
    return found


def statements(node: ast.AST) -> list[ast.stmt]:
    """All statements below a node, outer ones first; expressions, which are most of a tree, are not entered."""
    found: list[ast.stmt] = []
    blocks: list[ast.AST] = [node]
    for block in blocks:  # grows while it is gone through
        parts = block.__dict__
        for name in ("body", "orelse", "handlers", "finalbody", "cases"):
            inner = parts.get(name)
            if isinstance(inner, list):
                found += [item for item in inner if isinstance(item, ast.stmt)]
                blocks += [item for item in inner if "body" in item.__dict__]
    return found


def by_kind(node: ast.AST) -> dict[type[ast.AST], list[ast.AST]]:
    """A node and all below it, by their types."""
    index: dict[type[ast.AST], list[ast.AST]] = {}
    for current in walk(node):
        index.setdefault(type(current), []).append(current)
    return index


def encloses(outer: ast.AST, inner: ast.AST) -> bool:
    """Whether a node is another or lies below it; where their lines cannot be so, nothing is walked."""
    if outer is inner:
        return True
    first, last = getattr(outer, "lineno", None), getattr(outer, "end_lineno", None)
    line = getattr(inner, "lineno", None)
    # The decorators of a definition lie above its first line.
    if first is None or last is None or line is None or getattr(outer, "decorator_list", None):
        return any(part is inner for part in walk(outer))
    if not first <= line <= last:
        return False
    return any(part is inner for part in walk(outer))
