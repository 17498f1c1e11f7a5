"""Expressions: the worth of each form."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from preflight.source.evaluate import operators
from preflight.source.evaluate.comparisons import compare
from preflight.source.evaluate.members import each_once
from preflight.source.trace import Context
from preflight.source.values import Dict, Ext, Func, Known, Obj, Seq, Value, join, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MAX_ITEMS = 20_000
MAX_TEXT = 100_000


def evaluate(m: Machine, node: ast.expr) -> Value:
    """The value of an expression."""
    m.steps += 1
    if m.steps > m.max_steps:
        m.tick()
    handler = _EVALUATE.get(type(node))
    if handler is None:
        return m.unknown("an expression of a form that is not followed", node)
    value = handler(m, node)
    return value if m.given is None else m.given.worth(value)


def _constant(m: Machine, node: ast.Constant) -> Value:
    return Known(node.value, m.site(node), "literal")


def _name(m: Machine, node: ast.Name) -> Value:
    found = m.lookup(node.id)
    if found is not None:
        return found
    name = node.id
    if name == "__name__":
        return Known("__main__" if m.frame.module is m.module else m.frame.module.name)
    if name == "__file__":
        return Known(m.frame.module.script.path)
    stars = m.frame.module.namespace.get("*")
    if name in _BUILTINS:
        return Ext("builtins." + name)
    if isinstance(stars, Seq) and stars.items:
        from preflight.source.canonical import canonical

        star = _star_of(stars, name)
        known = _HANDED_ON.get(name) if not star.startswith("torch") else None
        return Ext(canonical(known or f"{star}.{name}"), m.site(node))
    return m.unknown(f"{name} is not bound", node)


_HANDED_ON = {
    **{name: name for name in ("torch", "numpy", "os", "sys", "math", "random", "json", "time", "copy", "warnings")},
    **{"np": "numpy", "nn": "torch.nn", "F": "torch.nn.functional", "optim": "torch.optim"},
}
"""What a star import of a library brings along is mostly what the library itself imports, under its usual name."""


def _star_of(stars: Seq, name: str) -> str:
    """Which of several star imports a name most likely comes from: capitalised names from ``nn``-like modules."""
    names = [star.name for star in stars.items if isinstance(star, Ext)]
    if name[:1].isupper():
        for star in reversed(names):
            if star in {"torch.nn", "torch.optim", "torch.utils.data"}:
                return star
    return names[-1] if names else "unknown"


_BUILTINS = frozenset(dir(__import__("builtins"))) | {"__builtins__"}


def _attribute(m: Machine, node: ast.Attribute) -> Value:
    from preflight.source.evaluate.attributes import attribute

    return attribute(m, evaluate(m, node.value), node.attr, node)


def _bool_op(m: Machine, node: ast.BoolOp) -> Value:
    from preflight.source.evaluate.branches import decide

    is_and = isinstance(node.op, ast.And)
    result: Value | None = None
    for part in node.values:
        value = evaluate(m, part)
        if result is None:
            result = value
        else:
            before, soft = decide(m, result)
            result = operators.both(m, result, value, is_and, before, soft, node)
        verdict, soft = decide(m, result)
        if verdict is not None and verdict is not is_and and not soft:
            return result
    assert result is not None
    return result


def _if_exp(m: Machine, node: ast.IfExp) -> Value:
    from preflight.source.evaluate.branches import decide

    test = evaluate(m, node.test)
    result, soft = decide(m, test)
    if result is not None and not soft:
        return evaluate(m, node.body if result else node.orelse)
    outer = m.context
    script = m.frame.module.script
    values = []
    for polarity, part in ((True, node.body), (False, node.orelse)):
        m.context = Context(outer, "if", node, script, test, polarity, None if result is None else result is polarity)
        values.append(evaluate(m, part))
    m.context = outer
    preferred = None if result is None else (0 if result else 1)
    return operators.softened(join(values[0], values[1], preferred, test), result)


def _tuple(m: Machine, node: ast.Tuple) -> Value:
    return Seq(_elements(m, node.elts), "tuple", m.site(node))


def _list(m: Machine, node: ast.List) -> Value:
    made = Seq(_elements(m, node.elts), "list", m.site(node))
    made.born = m.context
    return made


def _set(m: Machine, node: ast.Set) -> Value:
    return Seq(each_once(_elements(m, node.elts)), "set", m.site(node))


def _elements(m: Machine, nodes: list[ast.expr]) -> list[Value]:
    from preflight.source.evaluate.iteration import iterate

    items: list[Value] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            more, element = iterate(m, evaluate(m, node.value), node)
            items.extend(more if more is not None else [element] if element is not None else [])
        else:
            items.append(evaluate(m, node))
        if len(items) > MAX_ITEMS:
            m.tick(m.max_steps)
    return items


def _dict(m: Machine, node: ast.Dict) -> Value:
    result = Dict({}, m.site(node))
    for key, value in zip(node.keys, node.values, strict=True):
        worth = evaluate(m, value)
        if key is None:
            inner = settle(worth)
            if isinstance(inner, Dict):
                result.entries.update(inner.entries)
                result.open = result.open or inner.open
            else:
                result.open = True
            continue
        name = settle(evaluate(m, key))
        if isinstance(name, Known) and _hashable(name.value):
            result.entries[name.value] = worth
        else:
            result.open = True
            result.entries.setdefault(f"<{len(result.entries)}>", worth)
    return result


def _hashable(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float, bool, bytes))


def _joined_str(m: Machine, node: ast.JoinedStr) -> Value:
    parts: list[str] = []
    missing = soft = False
    size = 0
    values: list[Value] = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            text: str | None = str(part.value)
        else:
            value = evaluate(m, part.value)  # type: ignore[attr-defined]
            values.append(value)
            text = _formatted(m, part, settle(value))  # type: ignore[arg-type]
            soft = soft or operators.is_soft(value)
        size += len(text or "")
        missing = missing or text is None or size > MAX_TEXT
        if not missing:
            parts.append(text or "")
    if missing:
        return m.unknown("text with a part that is not known", node, *values)
    return Known("".join(parts), m.site(node), "computed", soft, tuple(values))


def _formatted(m: Machine, node: ast.FormattedValue, value: Value) -> str | None:
    spec = settle(evaluate(m, node.format_spec)) if node.format_spec is not None else Known("")
    if not isinstance(value, Known) or not isinstance(spec, Known) or not isinstance(spec.value, str):
        return None
    if len(spec.value) > 20 or any(int(part) > 1000 for part in _numbers(spec.value)):
        return None
    try:
        converters: dict[int, Callable[[object], str]] = {114: repr, 115: str, 97: ascii}
        convert = converters.get(node.conversion)
        return format(convert(value.value) if convert else value.value, spec.value)
    except (ValueError, TypeError, OverflowError):
        return None


def _numbers(text: str) -> list[str]:
    return "".join(c if c in "0123456789" else " " for c in text).split()


def _subscript(m: Machine, node: ast.Subscript) -> Value:
    from preflight.source.evaluate.attributes import item

    return item(m, evaluate(m, node.value), evaluate(m, node.slice), node)


def _slice(m: Machine, node: ast.Slice) -> Value:
    parts = [evaluate(m, p) if p is not None else Known(None) for p in (node.lower, node.upper, node.step)]
    return m.made("op", "slice", node, parts)


def _lambda(m: Machine, node: ast.Lambda) -> Value:
    from preflight.source.evaluate.functions import make_function

    return make_function(m, node, "<lambda>")


def _call(m: Machine, node: ast.Call) -> Value:
    from preflight.source.evaluate.calls import call_node

    return call_node(m, node)


def _named(m: Machine, node: ast.NamedExpr) -> Value:
    value = evaluate(m, node.value)
    inner = m.frame
    while m.frame.comprehension and m.frame.closure is not None:
        m.frame = m.frame.closure  # the name belongs to the function around a comprehension
    m.bind(node.target.id, value)
    m.frame = inner
    return value


def _yield(m: Machine, node: ast.Yield) -> Value:
    value = evaluate(m, node.value) if node.value is not None else Known(None)
    m.frame.yields.append((value, m.context))
    return m.unknown("what is sent into a generator", node)


def _yield_from(m: Machine, node: ast.YieldFrom) -> Value:
    from preflight.source.evaluate.iteration import iterate

    items, element = iterate(m, evaluate(m, node.value), node)
    for value in (items or [])[:64] if items is not None else [element] if element is not None else []:
        m.frame.yields.append((value, m.context))
    return m.unknown("result of a generator", node)


def _await(m: Machine, node: ast.Await) -> Value:
    return evaluate(m, node.value)


def _starred(m: Machine, node: ast.Starred) -> Value:
    return evaluate(m, node.value)


def _comprehension(m: Machine, node: Any) -> Value:
    from preflight.source.evaluate.comprehensions import comprehend

    return comprehend(m, node)


_EVALUATE: dict[type, Callable[[Any, Any], Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.BinOp: operators.binary,
    ast.UnaryOp: operators.unary,
    ast.Compare: compare,
    ast.BoolOp: _bool_op,
    ast.IfExp: _if_exp,
    ast.Tuple: _tuple,
    ast.List: _list,
    ast.Set: _set,
    ast.Dict: _dict,
    ast.JoinedStr: _joined_str,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.Lambda: _lambda,
    ast.NamedExpr: _named,
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
    ast.Await: _await,
    ast.Starred: _starred,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.DictComp: _comprehension,
    ast.GeneratorExp: _comprehension,
}

__all__ = ["Func", "Obj", "evaluate"]
