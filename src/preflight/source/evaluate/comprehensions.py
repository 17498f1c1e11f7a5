"""Comprehensions: known items are gone through; the rest is one element that stands for all."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from preflight.source.evaluate.assign import assign
from preflight.source.evaluate.branches import decide
from preflight.source.evaluate.expressions import evaluate
from preflight.source.evaluate.frame import Frame
from preflight.source.evaluate.iteration import duplicate, iterate
from preflight.source.evaluate.library.methods import is_module
from preflight.source.evaluate.members import each_once
from preflight.source.trace import Context
from preflight.source.values import Dict, Known, Obj, Seq, Value, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
MAX_ITEMS = 4096
FEW = 32
EXPENSIVE = 3000


def comprehend(m: Machine, node: Comprehension) -> Value:
    """The value of a comprehension."""
    outer = m.frame
    frame = Frame(outer.module, {}, outer, outer.func)
    frame.comprehension = True
    # Assignment expressions and yields belong to the function around.
    frame.returns, frame.yields, frame.self_value, frame.owner = (
        outer.returns,
        outer.yields,
        outer.self_value,
        outer.owner,
    )
    m.frame = frame
    context = m.context
    pairs: list[tuple[Value | None, Value]] = []
    try:
        exact = _generate(m, node, 0, pairs)
    finally:
        m.frame, m.context = outer, context
    if isinstance(node, ast.DictComp):
        return _dict(m, node, pairs, exact)
    kind = "set" if isinstance(node, ast.SetComp) else "list"
    values = [value for _, value in pairs]
    result = Seq(each_once(values) if kind == "set" else values, kind, m.site(node), not exact)
    result.born = m.context
    if isinstance(node, ast.GeneratorExp):
        result.kind = "generator"
    return result


def _dict(m: Machine, node: ast.DictComp, pairs: list[tuple[Value | None, Value]], exact: bool) -> Value:
    result = Dict({}, m.site(node), not exact)
    for key, value in pairs:
        settled = settle(key) if key is not None else None
        if isinstance(settled, Known) and isinstance(settled.value, (str, int, float, bool, bytes, type(None))):
            result.entries[settled.value] = value
        else:
            result.open = True
            result.entries.setdefault(f"<{len(result.entries)}>", value)
    return result


def _generate(m: Machine, node: Any, index: int, pairs: list[tuple[Value | None, Value]]) -> bool:
    """Go through the generators from ``index``; returns whether all items are known."""
    if index == len(node.generators):
        if isinstance(node, ast.DictComp):
            pairs.append((evaluate(m, node.key), evaluate(m, node.value)))
        else:
            pairs.append((None, evaluate(m, node.elt)))
        if len(pairs) > MAX_ITEMS:
            m.tick(1000)
        return True
    generator = node.generators[index]
    iterable = evaluate(m, generator.iter)
    items, element = iterate(m, iterable, generator.iter)
    outer = m.context
    m.context = Context(outer, "loop", generator.iter, m.frame.module.script, iterable)
    m.context.unrolled = items is not None
    exact = True
    if items is None or len(items) > MAX_ITEMS:
        exact = False
        items = [element] if element is not None else (items or [])[:1]
    elif _repeats(node, index, items):
        return _repeat(m, node, items, pairs, outer)
    begun = m.steps
    for item in items:
        if m.steps - begun > EXPENSIVE and len(items) > FEW and not _builds(pairs):
            exact = False  # a table of numbers: its first entries have to do
            break
        assign(m, generator.target, item, generator.iter)
        keep = True
        for test in generator.ifs:
            verdict, _ = decide(m, evaluate(m, test))
            if verdict is False:
                keep = False
                break
            if verdict is None:
                exact = False
        if keep:
            exact = _generate(m, node, index + 1, pairs) and exact
    m.context = outer
    return exact


def _builds(pairs: list[tuple[Value | None, Value]]) -> bool:
    """Whether the elements are things that must all be counted, such as layers."""
    last = settle(pairs[-1][1]) if pairs else None
    return isinstance(last, Obj) and last.kind in ("instance", "call") and is_module(last)


def _repeats(node: Any, index: int, items: list[Value]) -> bool:
    """Whether all passes give the same: one simple generator whose variable the element does not use."""
    if isinstance(node, ast.DictComp) or len(node.generators) != 1 or node.generators[0].ifs or len(items) < 2:
        return False
    target = node.generators[0].target
    names = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
    return not any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(node.elt))


def _repeat(m: Machine, node: Any, items: list[Value], pairs: list[tuple[Value | None, Value]], outer: Context) -> bool:
    before = m.serial
    first = evaluate(m, node.elt)
    m.context = outer
    pairs.append((None, first))
    held = isinstance(node.elt, (ast.Name, ast.Attribute, ast.Subscript)) or not isinstance(
        settle(first), (Obj, Seq, Dict)
    )
    # What was there before is one thing, held many times; what the element makes is made anew each time.
    pairs.extend((None, first if held else duplicate(m, first, node.elt, before)) for _ in items[1:])
    return True
