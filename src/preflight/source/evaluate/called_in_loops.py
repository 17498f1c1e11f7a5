"""What the methods and functions that a loop calls change: attributes of their object, and variables of their module."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from preflight.source.values import Bound, Func, Known, Obj, Unknown, Value, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MAX_CALLS = 60
"""Methods looked into for one loop."""

_Change = tuple[dict[Any, Value], str]
_Shape = tuple[frozenset[str], frozenset[str], tuple[ast.expr, ...]]
_SHAPES: dict[int, tuple[ast.AST, _Shape]] = {}


def changes_of(m: Machine, loop: ast.AST) -> list[_Change]:
    """Tables and names of the plain values that the calls in a loop's body set, however deep the calls go."""
    found: list[_Change] = []
    seen: set[tuple[int, int]] = set()
    work: list[tuple[Func, Obj | None]] = []
    for callee in _shape(loop, None)[2]:
        _add(work, _resolve(m, callee, None, None))
    while work and len(seen) < MAX_CALLS:
        func, owner = work.pop()
        key = (id(func.node), id(owner))
        if key in seen:
            continue
        seen.add(key)
        first = _first_parameter(func) if owner is not None else None
        attributes, names, calls = _shape(func.node, first)
        if owner is not None:
            found += [(owner.attrs, name) for name in sorted(attributes)]
        found += [(func.module.namespace, name) for name in sorted(names)]
        for callee in calls:
            _add(work, _resolve(m, callee, owner, first, func))
    return found


def forget(m: Machine, changes: list[_Change]) -> None:
    """Plain values that change while a loop runs are not what they were before it."""
    for table, name in changes:
        held = table.get(name)
        if held is not None and isinstance(settle(held), Known):
            m.write(table, name, Unknown("changes during the loop", held.site, (), initial=held, name=name))


def _add(work: list[tuple[Func, Obj | None]], found: tuple[Func, Obj | None] | None) -> None:
    if found is not None:
        work.append(found)


def _first_parameter(func: Func) -> str | None:
    arguments = func.node.args
    every = [*arguments.posonlyargs, *arguments.args]
    return every[0].arg if every else None


def _shape(node: ast.AST, first: str | None) -> _Shape:
    """Attributes of the first parameter that a body sets, global names it sets, and what it calls."""
    cached = _SHAPES.get(id(node))
    if cached is not None and cached[0] is node:
        return cached[1]
    attributes: set[str] = set()
    stored: set[str] = set()
    declared: set[str] = set()
    calls: list[ast.expr] = []
    body = getattr(node, "body", [])
    stack: list[ast.AST] = list(body) if isinstance(body, list) else [body]
    while stack:
        part = stack.pop()
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(part, ast.Call) and isinstance(part.func, (ast.Name, ast.Attribute)):
            calls.append(part.func)
        elif isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
            if isinstance(part.value, ast.Name) and part.value.id == first:
                attributes.add(part.attr)
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            stored.add(part.id)
        elif isinstance(part, ast.Global):
            declared.update(part.names)
        stack.extend(ast.iter_child_nodes(part))
    if len(_SHAPES) > 4096:
        _SHAPES.clear()
    shape = (frozenset(attributes), frozenset(stored & declared), tuple(calls))
    _SHAPES[id(node)] = (node, shape)
    return shape


def _resolve(
    m: Machine, callee: ast.expr, owner: Obj | None, first: str | None, func: Func | None = None
) -> tuple[Func, Obj | None] | None:
    """The project's function that is called, and the object whose method it is; None where it is not seen."""
    held = _value(m, callee.value if isinstance(callee, ast.Attribute) else callee, owner, first, func)
    if isinstance(callee, ast.Attribute):
        if not isinstance(held, Obj) or held.cls is None:
            return None
        method = held.cls.lookup(callee.attr)
        return (method, held) if isinstance(method, Func) else None
    if isinstance(held, Bound) and isinstance(held.receiver, Obj):
        return held.func, held.receiver
    return (held, None) if isinstance(held, Func) else None


def _value(m: Machine, node: ast.expr, owner: Obj | None, first: str | None, func: Func | None) -> Value | None:
    """What a name or a chain of attributes stands for now, without evaluating anything."""
    if isinstance(node, ast.Name):
        if owner is not None and node.id == first:
            return owner
        found = m.lookup(node.id) if func is None else func.module.namespace.get(node.id)
        return settle(found) if found is not None else None
    if isinstance(node, ast.Attribute):
        base = _value(m, node.value, owner, first, func)
        if isinstance(base, Obj) and base.kind == "instance":
            found = base.attrs.get(node.attr)
            return settle(found) if found is not None else None
    return None


__all__ = ["changes_of", "forget"]
