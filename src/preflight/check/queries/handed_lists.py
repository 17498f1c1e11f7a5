"""Lists that are handed to a function which empties them, or may: whoever does so has read them."""

from __future__ import annotations

import ast
import builtins
import sys

_READERS = frozenset(sys.stdlib_module_names - {"heapq"}) | {
    "torch",
    "torchvision",
    "numpy",
    "pandas",
    "scipy",
    "sklearn",
    "matplotlib",
    "tqdm",
}
"""Packages whose functions read a list that they are given and leave it as it is."""


def last_word(name: str) -> str:
    """The attribute that a dotted name ends in, or the name itself."""
    return name.rsplit(".", 1)[-1]


def handed_over(tree: ast.Module, taken: set[str]) -> set[str]:
    """The last words of what is handed to a call that takes things out of it, or of which nothing is known.

    Args:
        tree: The script.
        taken: The last words of what anything is taken out of in it, by whatever function.
    """
    origins = _origins(tree)
    functions: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
    classes: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.ClassDef):
            classes.add(node.name)
    found: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        given = [*node.args, *(word.value for word in node.keywords)]
        words = {last_word(ast.unparse(one)) for one in given if isinstance(one, ast.Name | ast.Attribute)}
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in ("append", "extend") or not words:
            continue
        if name in functions:
            names = {one.arg for function in functions[name] for one in _parameters(function)}
            found |= words if names & taken else set()
        elif name not in classes and not _reads(node.func, origins):
            found |= words
    return found


def _origins(tree: ast.Module) -> dict[str, str]:
    """The package that each imported name comes from."""
    origins: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            origins |= {(one.asname or one.name).split(".")[0]: one.name.split(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            origins |= {one.asname or one.name: (node.module or "").split(".")[0] for one in node.names}
    return origins


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _reads(func: ast.expr, origins: dict[str, str]) -> bool:
    """Whether a function is one of Python's own or of a package that leaves lists as they are."""
    root = func
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name):
        return False
    return origins.get(root.id) in _READERS or (root is func and hasattr(builtins, root.id))
