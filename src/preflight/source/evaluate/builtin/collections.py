"""Built-in functions that make collections, and go through them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from preflight.source.evaluate.builtin.model import MISSING, MODEL
from preflight.source.evaluate.iteration import iterate
from preflight.source.evaluate.library import Call
from preflight.source.evaluate.members import each_once
from preflight.source.values import (
    Bound,
    Dict,
    Func,
    Known,
    Obj,
    Seq,
    Value,
    plain,
    settle,
)

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine


@MODEL.call(
    "builtins.list", "builtins.tuple", "builtins.set", "builtins.sorted", "builtins.reversed", "builtins.frozenset"
)
def _sequence(m: Machine, c: Call) -> Value | None:
    made = _collected(m, c)
    if isinstance(made, Seq):
        made.born = m.context
    return made


def _collected(m: Machine, c: Call) -> Value | None:
    name = c.name.rpartition(".")[2]
    kind = {"tuple": "tuple", "set": "set", "frozenset": "set"}.get(name, "list")
    if not c.args:
        return Seq([], kind, m.site(c.node))
    items, element = iterate(m, c.args[0], c.node)
    m.tick(len(items or ()) // 8)
    if items is None:
        base = settle(c.args[0])
        if isinstance(base, Obj) or element is None:
            return None
        return Seq([element], kind, m.site(c.node), True)
    if name == "sorted":
        ordered = in_order(m, items, c.kwargs, c.node)
        return Seq(
            list(items) if ordered is None else ordered, kind, m.site(c.node), ordered is None and len(items) > 1
        )
    if kind == "set":
        items = each_once(items)
    return Seq(list(reversed(items)) if name == "reversed" else list(items), kind, m.site(c.node))


def in_order(m: Machine, items: list[Value], kwargs: dict[str, Value], node: ast.AST) -> list[Value] | None:
    """The items as ``sorted`` gives them, or None where the order is not known."""
    from preflight.source.evaluate.calls import call

    backwards = plain(kwargs["reverse"], MISSING) if "reverse" in kwargs else False
    key = kwargs.get("key")
    if backwards is MISSING or len(items) > 1024:
        return None
    bare = key is None or isinstance(settle(key), Known)
    marks = [m.plain(item if bare or key is None else call(m, key, [item], {}, node), MISSING) for item in items]
    if any(mark is MISSING for mark in marks):
        return None
    try:
        order = sorted(range(len(items)), key=marks.__getitem__, reverse=bool(backwards))
    except TypeError:
        return None
    return [items[i] for i in order]


@MODEL.call("builtins.dict")
def _dict(m: Machine, c: Call) -> Value | None:
    result = Dict({}, m.site(c.node), c.open)
    if c.args:
        base = settle(c.args[0])
        if isinstance(base, Dict):
            result.entries.update(base.entries)
            result.open = result.open or base.open
        else:
            items, _ = iterate(m, base, c.node)
            for row in items or []:
                pair = settle(row)
                key = settle(pair.items[0]) if isinstance(pair, Seq) and len(pair.items) == 2 else None
                if isinstance(key, Known) and isinstance(pair, Seq):
                    result.entries[key.value] = pair.items[1]
                else:
                    result.open = True
            result.open = result.open or items is None
    result.entries.update(c.kwargs)
    return result


@MODEL.call("builtins.iter")
def _iter(m: Machine, c: Call) -> Value | None:
    """An iterator over known items, which ``next`` uses up; over anything else, the call itself."""
    base = settle(c.args[0]) if len(c.args) == 1 else None
    repeats = any(f.kind == "loop" and not f.unrolled for f in m.context.frames())
    if isinstance(base, Seq) and not base.open and base.kind != "generator" and not repeats:
        m.tick(len(base.items) // 8)
        return Seq(list(base.items), "generator", m.site(c.node))
    return None


@MODEL.call("builtins.next")
def _next(m: Machine, c: Call) -> Value | None:
    if not c.args:
        return None
    items, element = iterate(m, c.args[0], c.node)
    source = settle(c.args[0])
    if items and isinstance(source, Seq) and source.kind == "generator":
        m.touch(source)
        return source.items.pop(0)
    if items:
        return items[0]
    made = m.made("item", "next", c.node, receiver=c.args[0])
    if element is not None and not (isinstance(element, Obj) and element.kind == "item"):
        return element
    return made


@MODEL.call("builtins.map")
def _map(m: Machine, c: Call) -> Value | None:
    from preflight.source.evaluate.calls import call

    if len(c.args) != 2:
        return None
    items, element = iterate(m, c.args[1], c.node)
    items = _chunks(m, c.args[1], c.node) if items is None else items
    if items is not None and len(items) <= 256:
        return Seq([call(m, c.args[0], [i], {}, c.node) for i in items], "list", m.site(c.node))
    return Seq([call(m, c.args[0], [element or m.unknown("item", c.node)], {}, c.node)], "list", m.site(c.node), True)


def _chunks(m: Machine, value: Value, node: ast.AST) -> list[Value] | None:
    """The parts that ``x.chunk(3)`` makes of a tensor; None for anything else."""
    base = settle(value)
    if not isinstance(base, Obj) or base.name not in (".chunk", "torch.chunk"):
        return None
    count = plain(base.argument(int(base.name == "torch.chunk"), "chunks"))
    if not isinstance(count, int) or not 0 < count <= 16:
        return None
    return [m.made("item", "", node, [m.known(place)], receiver=value) for place in range(count)]


@MODEL.call("builtins.filter")
def _filter(m: Machine, c: Call) -> Value | None:
    from preflight.source.evaluate.calls import call

    if len(c.args) == 2:
        items, element = iterate(m, c.args[1], c.node)
        sample = items[0] if items else element
        if sample is not None and isinstance(settle(c.args[0]), (Func, Bound)):
            call(m, c.args[0], [sample], {}, c.node)
    return None


@MODEL.call("builtins.slice")
def _slice(m: Machine, c: Call) -> Value | None:
    args = list(c.args)
    if len(args) == 1:
        args = [m.known(None), args[0]]
    while len(args) < 3:
        args.append(m.known(None))
    return m.made("op", "slice", c.node, args)
