"""Which names a part of a program's text speaks of."""

from __future__ import annotations

import ast


def names_in(node: ast.AST) -> set[str]:
    """The plain names, read or written."""
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def words_in(node: ast.AST) -> set[str]:
    """The plain names and the attributes."""
    return names_in(node) | {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
