"""Loops: unrolled when they build something from known items, otherwise followed once."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from preflight.source.evaluate.assign import assign
from preflight.source.evaluate.branches import decide
from preflight.source.evaluate.called_in_loops import changes_of, forget
from preflight.source.evaluate.expressions import evaluate
from preflight.source.evaluate.iteration import iterate
from preflight.source.evaluate.training_names import trains
from preflight.source.trace import Carry, Context
from preflight.source.values import Dict, Known, Obj, Phi, Seq, Unknown, Value, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MAX_UNROLL = 1024
MAX_WHILE = 128
FEW = 16
EXPENSIVE = 1500
EXPENSIVE_WHOLE = 20_000


def run_for(m: Machine, node: ast.For | ast.AsyncFor) -> str | None:
    """Follow a for loop."""
    iterable = evaluate(m, node.iter)
    items, element = iterate(m, iterable, node)
    if items is not None and _worth_unrolling(m, node, items):
        return _unroll(m, node, iterable, items)
    if items is not None and element is None:
        if not items:
            return None
        element = items[0] if len(items) == 1 else _any_of(m, items, node, iterable)
    assert element is not None
    return _once(m, node, iterable, element, len(items) if items is not None and _all_alike(items) else 1)


def _any_of(m: Machine, items: list[Value], node: ast.AST, iterable: Value) -> Value:
    """One value that stands for each of several: where these are numbers or texts, it changes from pass to pass."""
    first = settle(items[0])
    if isinstance(first, Known):
        return Unknown("changes with each iteration of the loop", m.site(node), (iterable,), initial=first)
    if not isinstance(first, Seq) or first.kind != "tuple":
        return items[0]
    rows = [row.items for row in map(settle, items) if isinstance(row, Seq)]
    columns = [list(column) for column in zip(*rows, strict=False)]
    parts = [
        _any_of(m, column, node, iterable) if _differ(column) else value
        for column, value in zip(columns, first.items, strict=False)
    ]
    source = settle(iterable)
    if parts and isinstance(parts[0], Unknown) and isinstance(source, Obj) and source.name == "builtins.enumerate":
        parts[0].name = "index"
    return Seq(parts, "tuple", first.site)


def _differ(column: list[Value]) -> bool:
    """Whether values are not all the same number or text."""
    values = [settle(value) for value in column]
    return any(not isinstance(v, Known) or v.value != getattr(values[0], "value", None) for v in values)


def _worth_unrolling(m: Machine, node: ast.For | ast.AsyncFor, items: list[Value]) -> bool:
    if len(items) > MAX_UNROLL or trains(m, node) or _all_alike(items):
        return False
    if len(items) <= FEW:
        return True
    if any(f.kind == "call" and getattr(f.value, "qualname", "").endswith(".__init__") for f in m.context.frames()):
        return True
    return _builds(node)


def _builds(node: ast.AST) -> bool:
    """Whether a loop fills something, so that each of its passes counts."""
    builds = ("append", "extend", "add_module", "update", "insert", "setattr", "add_argument")
    for part in ast.walk(node):
        if isinstance(part, ast.Call):
            name = part.func.attr if isinstance(part.func, ast.Attribute) else getattr(part.func, "id", "")
            if name in builds:
                return True
        elif isinstance(part, ast.AugAssign) and isinstance(part.value, (ast.List, ast.Tuple)):
            return True  # layers += [Linear(n, n), ReLU()]
    return False


def _all_alike(items: list[Value]) -> bool:
    """Whether the items are copies of one thing, as ``[Block() for _ in range(n)]`` makes them: one pass tells all."""
    return len(items) > 2 and all(isinstance(i, Obj) and i.kind == "copy" and i.receiver is items[0] for i in items[1:])


def _unroll(m: Machine, node: ast.For | ast.AsyncFor, iterable: Value, items: list[Value]) -> str | None:
    from preflight.source.evaluate.statements import run_block

    outer = m.context
    m.context = Context(outer, "loop", node, m.frame.module.script, iterable)
    m.context.unrolled = True
    begun = m.steps
    try:
        for index, item in enumerate(items):
            if index == 8 and len(items) > FEW and _too_dear(m, node, m.steps - begun, len(items)):
                # Each pass costs much: one more that stands for all the others has to do.
                m.context.unrolled = False
                havoc(m, node)
            early = m.early
            assign(m, node.target, item, node)
            signal = run_block(m, node.body)
            if m.early != early:
                havoc(m, node)  # how many passes there are is not known any more
            if signal == "break" or not m.context.unrolled:
                return None
            if signal in ("return", "raise"):
                return signal
    finally:
        m.context = outer
    return run_block(m, node.orelse) if node.orelse else None


def _too_dear(m: Machine, node: ast.For | ast.AsyncFor, spent: int, passes: int) -> bool:
    """Whether the rest of a loop is not worth its steps, after eight passes: those of what makes no parts count as a whole."""
    if spent > 8 * EXPENSIVE:
        return True
    nearest = next((f for f in m.context.frames() if f.kind == "call"), None)
    constructor = nearest is not None and getattr(nearest.value, "qualname", "").endswith(".__init__")
    return not constructor and not _builds(node) and spent * passes > 8 * EXPENSIVE_WHOLE


def _once(m: Machine, node: ast.For | ast.AsyncFor, iterable: Value, element: Value, passes: int = 1) -> str | None:
    from preflight.source.evaluate.statements import run_block

    outer = m.context
    m.context = Context(outer, "loop", node, m.frame.module.script, iterable)
    m.context.passes = passes
    carries = havoc(m, node)
    early = m.early
    try:
        assign(m, node.target, element, node)
        signal = run_block(m, node.body)
    finally:
        m.context = outer
    close(m, carries, m.early != early)
    if node.orelse:
        run_block(m, node.orelse)
    # A return inside the loop may not happen in the first pass over real data: go on after the loop.
    return "raise" if signal == "raise" else None


def run_while(m: Machine, node: ast.While) -> str | None:
    """Follow a while loop: its body once, unless the test is known to be false from the start."""
    from preflight.source.evaluate.statements import run_block

    before = evaluate(m, node.test)
    result, soft = decide(m, before)
    if result is False and not soft:
        return run_block(m, node.orelse) if node.orelse else None
    if result is True and not isinstance(node.test, ast.Constant) and _builds(node) and not trains(m, node):
        done, signal = _unroll_while(m, node, before)
        if done:
            return signal
    outer = m.context
    m.context = Context(outer, "loop", node, m.frame.module.script, before)
    carries = havoc(m, node)
    early = m.early
    try:
        m.context.value = evaluate(m, node.test)
        signal = run_block(m, node.body)
    finally:
        m.context = outer
    close(m, carries, m.early != early)
    if node.orelse:
        run_block(m, node.orelse)
    endless = result is True and not soft and not any(isinstance(n, ast.Break) for n in ast.walk(node))
    return "raise" if signal == "raise" else ("return" if endless and signal == "return" else None)


def _unroll_while(m: Machine, node: ast.While, test: Value) -> tuple[bool, str | None]:
    """Follow a loop that counts over known numbers, as ``while repeat: layers.append(...)``, pass by pass.

    Returns:
        Whether its end was reached, and the signal.
    """
    from preflight.source.evaluate.statements import run_block

    outer = m.context
    m.context = Context(outer, "loop", node, m.frame.module.script, test)
    m.context.unrolled = True
    early = m.early
    try:
        for _ in range(MAX_WHILE):
            signal = run_block(m, node.body)
            if signal == "break":
                return True, None
            if signal in ("return", "raise"):
                return True, signal
            verdict, _ = decide(m, evaluate(m, node.test))
            if m.early != early or verdict is None:
                return False, None
            if not verdict:
                break
        else:
            return False, None
    finally:
        m.context = outer
    return True, run_block(m, node.orelse) if node.orelse else None


def havoc(m: Machine, node: ast.For | ast.AsyncFor | ast.While) -> list[Carry]:
    """Forget the scalars that the loop changes, and mark the things that it carries from one pass to the next."""
    carries: list[Carry] = []
    names, attributes, entries = assigned_in(node)
    targets = (
        {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)} if not isinstance(node, ast.While) else set()
    )
    for name in sorted(names - targets):
        value = m.lookup(name)
        if value is None:
            continue
        settled = settle(value)
        mark: Value
        if isinstance(settled, Known):
            # A number, None or a flag before the loop: something else afterwards.
            mark = Unknown("changes during the loop", value.site, (), initial=value, name=name)
        elif isinstance(value, (Obj, Unknown)) or isinstance(settled, (Obj, Unknown)) or _is_tuple(settled):
            mark = Phi(name, value, value.site)
        else:
            continue
        carries.append(Carry(name, m.context, mark, value))
        m.bind(name, mark)
    for base, attr in attributes:
        owner = m.lookup(base)
        table: Any = getattr(settle(owner), "attrs", None) if owner is not None else None
        if table is not None and isinstance(settle(table.get(attr, Unknown(""))), Known):
            m.write(table, attr, Unknown("changes during the loop", None, (), initial=table[attr], name=attr))
    for base, key in entries:
        owner = m.lookup(base)
        held = settle(owner) if owner is not None else None
        if isinstance(held, Dict) and isinstance(settle(held.entries.get(key, Unknown(""))), Known):
            before = held.entries[key]
            m.write(held.entries, key, Unknown("changes during the loop", None, (), initial=before, name=str(key)))
    forget(m, changes_of(m, node))
    return carries


def _is_tuple(value: Value) -> bool:
    """A pair of tensors, such as the state of an LSTM, is carried like one tensor."""
    return isinstance(value, Seq) and value.kind == "tuple"


def close(m: Machine, carries: list[Carry], early: bool = False) -> None:
    """Remember what a carried name holds at the end of the body; ``early``: some passes may have ended before it."""
    for carry in carries:
        final = m.lookup(carry.name)
        if final is None:
            continue
        carry.final = final
        if final is not carry.mark:
            m.trace.carried.append(carry)
            if isinstance(carry.mark, Phi):
                carry.mark.final = final
        elif isinstance(carry.mark, Phi) and not early:
            m.bind(carry.name, carry.mark.initial)


_Assigned = tuple[set[str], set[tuple[str, str]], set[tuple[str, Any]]]
_CACHE: dict[int, tuple[ast.AST, _Assigned]] = {}


def assigned_in(loop: ast.AST) -> _Assigned:
    """Names, attributes and entries of names that the statements of a loop assign (not those of nested functions)."""
    cached = _CACHE.get(id(loop))
    if cached is not None and cached[0] is loop:
        return cached[1]
    names: set[str] = set()
    attributes: set[tuple[str, str]] = set()
    entries: set[tuple[str, Any]] = set()
    stack: list[ast.AST] = list(getattr(loop, "body", []))
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                names.add(node.id)
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and isinstance(node, ast.Attribute):
                attributes.add((node.value.id, node.attr))
            elif isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Constant):  # type: ignore[union-attr]
                entries.add((node.value.id, node.slice.value))  # type: ignore[union-attr]
        stack.extend(ast.iter_child_nodes(node))
    if len(_CACHE) > 4096:
        _CACHE.clear()
    _CACHE[id(loop)] = (loop, (names, attributes, entries))
    return names, attributes, entries
