"""Comparisons of values: what is equal, the same, larger or held, as far as that is known."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from preflight.source.evaluate.operators import COMPARED, deep, how_of, is_soft, overloaded
from preflight.source.values import Choice, Dict, Ext, Known, Obj, Phi, Seq, Unknown, Value, plain, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine


def compare(m: Machine, node: ast.Compare) -> Value:
    """``a < b``, ``a is None``, ``a in b``, and chains."""
    evaluate = deep()
    left = evaluate(m, node.left)
    result: Value | None = None
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = evaluate(m, right_node)
        part = _compare(m, op, left, right, node)
        if result is None:
            result = part
        elif isinstance(result, Known) and isinstance(part, Known):
            result = Known(
                bool(result.value and part.value), m.site(node), "computed", result.soft or part.soft, (result, part)
            )
        else:
            result = m.made("op", "and", node, [result, part])
        left = right
    assert result is not None
    return result


def _compare(m: Machine, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Value:
    a, b = settle(left), settle(right)
    soft = bool(getattr(a, "soft", False) or getattr(b, "soft", False))
    if isinstance(left, Choice) and left.preferred is not None:
        soft = True
    if not isinstance(op, (ast.Is, ast.IsNot)):
        soft = soft or _holds_soft(a) or _holds_soft(b)
    custom = overloaded(m, op, left, a, right, b, node)
    if custom is not None:
        return custom
    verdict = _identity(op, a, b) if isinstance(op, (ast.Is, ast.IsNot)) else None
    if isinstance(op, (ast.In, ast.NotIn)):
        verdict = _member(a, b)
        if verdict is not None and isinstance(op, ast.NotIn):
            verdict = not verdict
    elif isinstance(a, Known) and isinstance(b, Known) and verdict is None and type(op) in COMPARED:
        try:
            verdict = bool(COMPARED[type(op)][1](a.value, b.value))
        except TypeError:
            verdict = None
    elif isinstance(a, Unknown) and a.name in _RANKS and isinstance(b, Known):
        verdict = _rank(op, b.value)
    elif verdict is None and isinstance(op, (ast.Eq, ast.NotEq)):
        verdict = _equality(a, b)
        if verdict is not None and isinstance(op, ast.NotEq):
            verdict = not verdict
    elif verdict is None and isinstance(a, Seq) and isinstance(b, Seq) and type(op) in COMPARED:
        verdict = _order(op, a, b)
    if verdict is not None:
        return Known(verdict, m.site(node), how_of(*[v for v in (a, b) if isinstance(v, Known)]), soft, (left, right))
    symbol = COMPARED.get(type(op), (type(op).__name__.lower(), None))[0]
    return m.made("op", symbol, node, [left, right])


_RANKS = frozenset({"RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "SLURM_PROCID", "SLURM_LOCALID"})


def _rank(op: ast.cmpop, other: object) -> bool | None:
    """A rank is not known, but it is never negative: scripts test for -1 to see whether they were launched."""
    if isinstance(other, int) and other < 0:
        return isinstance(op, (ast.NotEq, ast.Gt, ast.GtE))
    return False if other is None and isinstance(op, ast.Eq) else None


def _identity(op: ast.cmpop, a: Value, b: Value) -> bool | None:
    negate = isinstance(op, ast.IsNot)
    if isinstance(b, Known) and (b.value is None or isinstance(b.value, bool)):
        if isinstance(a, Known):
            return (a.value is b.value) is not negate
        if isinstance(a, (Seq, Dict, Ext)) or (isinstance(a, Obj) and a.kind in {"instance"}):
            return negate
        if isinstance(a, Obj) and a.kind == "call" and a.name.rpartition(".")[2][:1].isupper():
            return negate  # the name of a class: a constructor never returns None
    if a is b and not isinstance(a, Phi):
        return not negate
    return None


def _equality(a: Value, b: Value) -> bool | None:
    if isinstance(a, Ext) and isinstance(b, Ext) and a.name == b.name:
        return True
    if isinstance(a, (Seq, Dict)) and isinstance(b, (Seq, Dict)):
        x, y = plain(a), plain(b)
        if x is None or y is None:
            return None
        unordered = [isinstance(v, Seq) and v.kind == "set" for v in (a, b)]
        if any(unordered):
            return all(unordered) and len(x) == len(y) and all(item in y for item in x)
        return bool(x == y)
    return None


def _holds_soft(value: Value) -> bool:
    """Whether a sequence has an item that a person can change without editing the code: ``(args.major, 0)``."""
    if not isinstance(value, Seq):
        return False
    nested, seen = [value], {id(value)}
    for one in nested:  # grows as it goes: a list that is held many times counts once
        for item in one.items:
            if is_soft(item):
                return True
            base = settle(item)
            if isinstance(base, Seq) and id(base) not in seen:
                seen.add(id(base))
                nested.append(base)
    return False


def _order(op: ast.cmpop, a: Seq, b: Seq) -> bool | None:
    """Which of two sequences comes first, as their items decide: ``capability >= (8, 0)``."""
    x, y = plain(a), plain(b)
    if x is None or y is None or a.kind != b.kind or a.kind == "set":
        return None
    try:
        return bool(COMPARED[type(op)][1](x, y))
    except TypeError:
        return None


def _member(a: Value, b: Value) -> bool | None:
    if not isinstance(a, Known):
        return None
    if isinstance(b, Dict):
        try:
            held = b.entries.get(a.value)
        except TypeError:
            return None
        if held is None or (b.open and isinstance(held, Choice) and any(isinstance(o, Unknown) for o in held.options)):
            return None if b.open else False
        return True
    if isinstance(b, Seq):
        if any(isinstance(i, Known) and i.value == a.value for i in map(settle, b.items)):
            return True
        return None if b.open or plain(b) is None else False
    if isinstance(b, Known) and isinstance(b.value, str) and isinstance(a.value, str):
        return a.value in b.value
    return None
