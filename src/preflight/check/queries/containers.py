"""What a class, a function or a script does with its lists and other containers, by the names that they have."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from preflight.check.queries.handed_lists import handed_over, last_word

_TAKES = ("pop", "popleft", "popitem", "remove", "clear")
_FILLS = ("append", "extend", "add", "update", "appendleft", "insert")

Places = tuple[ast.AST, ...]
"""The loops that something lies in, outermost first; in a class the method, and nothing for ``__init__``."""


@dataclass(frozen=True)
class Put:
    """One list that is appended to another as it is.

    Attributes:
        store: What it is put into.
        row: What is put away.
        call: The call of ``append``.
        place: The loops that it lies in; in a class the method.
        tests: What is asked between the innermost of them and the call.
        behind: What comes behind it in its block.
    """

    store: str
    row: str
    call: ast.Call
    place: Places
    tests: tuple[ast.expr, ...]
    behind: tuple[ast.stmt, ...]


@dataclass
class Containers:
    """What one class, one function or the top of a script does with its containers, by their names and places."""

    made: dict[str, list[tuple[ast.expr | None, Places]]] = field(default_factory=dict)
    """Each assignment: its value, where it is one, and what it lies in: loops, or the method for an attribute."""
    emptied: dict[str, list[Places]] = field(default_factory=dict)
    filled: dict[str, list[Places]] = field(default_factory=dict)
    kept: list[Put] = field(default_factory=list)
    """Each name that is appended to another as it is."""


@dataclass(frozen=True)
class _Around:
    """What a node lies in: see ``Put``."""

    place: Places = ()
    tests: tuple[ast.expr, ...] = ()
    behind: tuple[ast.stmt, ...] = ()


def handled_elsewhere(tree: ast.Module) -> tuple[set[str], set[str]]:
    """The last words of what anything is or may be taken out of, and of what is replaced from outside its own scope."""
    taken: set[str] = set()
    replaced: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _TAKES:
            taken.add(last_word(ast.unparse(node.func.value)))
        elif isinstance(node, ast.Delete):
            taken |= {last_word(ast.unparse(one.value)) for one in node.targets if isinstance(one, ast.Subscript)}
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) != "self":
            replaced.add(node.attr)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            replaced |= set(node.names)
    return taken | handed_over(tree, taken), replaced


def containers_of(body: list[ast.stmt], *, attributes: bool) -> Containers:
    """Gather what a scope does; of a class, in all of its methods and with attributes of ``self`` alone."""
    scope = Containers()
    rows: list[tuple[ast.AST, _Around, dict[str, list[str]]]] = [
        (node, _Around(behind=tuple(body[number + 1 :])), {}) for number, node in enumerate(body)
    ]
    while rows:
        node, around, stand = rows.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if not attributes:
                continue
            around = _Around(() if node.name == "__init__" else (node,))
        elif isinstance(node, ast.ClassDef | ast.Lambda):
            continue
        elif isinstance(node, ast.For | ast.While | ast.AsyncFor):
            around = around if attributes else _Around((*around.place, node))
            stand = {**stand, **_each_of(node)}
        elif isinstance(node, ast.If):
            around = replace(around, tests=(*around.tests, node.test))
        _note(scope, node, around, stand, attributes)
        rows += [(child, inner, stand) for child, inner in _children(node, around)]
    return scope


def _children(node: ast.AST, around: _Around) -> Iterator[tuple[ast.AST, _Around]]:
    """What lies directly in a node, each statement of a block with those behind it."""
    for _name, part in ast.iter_fields(node):
        if isinstance(part, list):
            for number, one in enumerate(part):
                if isinstance(one, ast.stmt):
                    yield one, replace(around, behind=tuple(part[number + 1 :]))
                elif isinstance(one, ast.AST):
                    yield one, around
        elif isinstance(part, ast.AST):
            yield part, around


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


def _note(scope: Containers, node: ast.AST, around: _Around, stand: dict[str, list[str]], attributes: bool) -> None:
    """Take down one assignment, deletion or call."""
    loops = around.place

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
    elif isinstance(node, ast.For | ast.AsyncFor) and fits(ast.unparse(node.target)):
        scope.made.setdefault(ast.unparse(node.target), []).append((None, loops))
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
                    scope.kept.append(Put(name, row, node, loops, around.tests, around.behind))


def _pairs(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """The parts of an assignment of several names, each with its own value where that can be seen."""
    if not isinstance(target, ast.Tuple | ast.List):
        yield target, value
        return
    values = value.elts if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts) else None
    for number, one in enumerate(target.elts):
        yield from _pairs(one, values[number] if values is not None else None)
