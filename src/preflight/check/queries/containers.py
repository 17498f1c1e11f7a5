"""What a class, a function or a script does with its lists and other containers, by the names that they have."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

_TAKES = ("pop", "popleft", "popitem", "remove", "clear")
_FILLS = ("append", "extend", "add", "update", "appendleft", "insert")

Places = tuple[ast.AST, ...]
"""The loops that something lies in, outermost first; in a class the method, and nothing for ``__init__``."""


@dataclass
class Containers:
    """What one class, one function or the top of a script does with its containers, by their names and places."""

    made: dict[str, list[tuple[ast.expr | None, Places]]] = field(default_factory=dict)
    """Each assignment: its value, where it is one, and what it lies in: loops, or the method for an attribute."""
    emptied: dict[str, list[Places]] = field(default_factory=dict)
    filled: dict[str, list[Places]] = field(default_factory=dict)
    kept: list[tuple[str, str, ast.Call, Places]] = field(default_factory=list)
    """Each name that is appended to another as it is: the store, the name, the call and its place."""


def last_word(name: str) -> str:
    """The attribute that a dotted name ends in, or the name itself."""
    return name.rsplit(".", 1)[-1]


def handled_elsewhere(tree: ast.Module) -> tuple[set[str], set[str]]:
    """The last words of what anything is taken out of, and of attributes that are replaced from outside their class."""
    taken: set[str] = set()
    replaced: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _TAKES:
            taken.add(last_word(ast.unparse(node.func.value)))
        elif isinstance(node, ast.Delete):
            taken |= {last_word(ast.unparse(one.value)) for one in node.targets if isinstance(one, ast.Subscript)}
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) != "self":
            replaced.add(node.attr)
    return taken, replaced


def containers_of(body: list[ast.stmt], *, attributes: bool) -> Containers:
    """Gather what a scope does; of a class, in all of its methods and with attributes of ``self`` alone."""
    scope = Containers()
    rows: list[tuple[ast.AST, Places, dict[str, list[str]]]] = [(node, (), {}) for node in body]
    while rows:
        node, loops, stand = rows.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if not attributes:
                continue
            loops = () if node.name == "__init__" else (node,)
        elif isinstance(node, ast.ClassDef | ast.Lambda):
            continue
        elif isinstance(node, ast.For | ast.While | ast.AsyncFor):
            loops = loops if attributes else (*loops, node)
            stand = {**stand, **_each_of(node)}
        _note(scope, node, loops, stand, attributes)
        rows += [(child, loops, stand) for child in ast.iter_child_nodes(node)]
    return scope


def _each_of(loop: ast.AST) -> dict[str, list[str]]:
    """What the variable of a loop over a written-out tuple of names stands for."""
    if (
        isinstance(loop, ast.For)
        and isinstance(loop.target, ast.Name)
        and isinstance(loop.iter, ast.Tuple | ast.List)
        and all(isinstance(one, ast.Name | ast.Attribute) for one in loop.iter.elts)
    ):
        return {loop.target.id: [ast.unparse(one) for one in loop.iter.elts]}
    return {}


def _note(scope: Containers, node: ast.AST, loops: Places, stand: dict[str, list[str]], attributes: bool) -> None:
    """Take down one assignment, deletion or call."""

    def fits(name: str) -> bool:
        return name.startswith("self.") == attributes

    def names(of: ast.expr) -> list[str]:
        word = ast.unparse(of)
        return [one for one in stand.get(word, [word]) if fits(one)]

    if isinstance(node, ast.Assign | ast.AnnAssign):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            for one, value in _pairs(target, node.value):
                if isinstance(one, ast.Subscript) and isinstance(one.slice, ast.Slice):
                    for name in names(one.value):
                        scope.emptied.setdefault(name, []).append(loops)
                elif fits(ast.unparse(one)):
                    scope.made.setdefault(ast.unparse(one), []).append((value, loops))
    elif isinstance(node, ast.Delete):
        for target in node.targets:
            if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice):
                for name in names(target.value):
                    scope.emptied.setdefault(name, []).append(loops)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        for name in names(node.func.value):
            if node.func.attr == "clear":
                scope.emptied.setdefault(name, []).append(loops)
            if node.func.attr in _FILLS:
                scope.filled.setdefault(name, []).append(loops)
            if (
                node.func.attr == "append"
                and len(node.args) == 1
                and isinstance(node.args[0], ast.Name | ast.Attribute)
            ):
                for row in names(node.args[0]):
                    scope.kept.append((name, row, node, loops))


def _pairs(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """The parts of an assignment of several names, each with its own value where that can be seen."""
    if not isinstance(target, ast.Tuple | ast.List):
        yield target, value
        return
    values = value.elts if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts) else None
    for number, one in enumerate(target.elts):
        yield from _pairs(one, values[number] if values is not None else None)
