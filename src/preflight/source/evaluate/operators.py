"""Operators on values: plain ones are computed within bounds, others make a node of the graph."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from preflight.source.evaluate.members import combined
from preflight.source.values import Choice, Dict, Func, Known, Obj, Phi, Seq, Unknown, Value, join, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

_BINARY: dict[type, tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
    ast.Pow: ("**", operator.pow),
    ast.LShift: ("<<", operator.lshift),
    ast.RShift: (">>", operator.rshift),
    ast.BitOr: ("|", operator.or_),
    ast.BitAnd: ("&", operator.and_),
    ast.BitXor: ("^", operator.xor),
    ast.MatMult: ("@", operator.matmul),
}
COMPARED: dict[type, tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
}
_IN_PLACE = {ast.Add: "__iadd__", ast.Sub: "__isub__", ast.Mult: "__imul__", ast.Div: "__itruediv__"}
# Modules that grow by ``+=``, as lists do.
_GROWING = frozenset(("torch.nn.ModuleList", "torch.nn.Sequential"))
MAX_BITS = 4096
MAX_SIZE = 10_000


def deep() -> Any:
    """Return what evaluates an operand: expressions are made of operators, and operators of expressions."""
    from preflight.source.evaluate.expressions import evaluate

    return evaluate


def binary(m: Machine, node: ast.BinOp) -> Value:
    """``a + b`` and its kin; long chains are followed without recursion."""
    evaluate = deep()
    chain: list[ast.BinOp] = [node]
    while isinstance(chain[-1].left, ast.BinOp):
        chain.append(chain[-1].left)
    left = evaluate(m, chain[-1].left)
    for part in reversed(chain):
        m.tick()
        left = apply(m, part.op, left, evaluate(m, part.right), part)
    result: Value = left
    return result


def apply(m: Machine, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
    """The value of ``left op right``."""
    symbol, function = _BINARY[type(op)]
    a, b = settle(left), settle(right)
    if isinstance(a, Choice) or isinstance(b, Choice):
        spread = _over_choices(m, op, a, b, node)
        if spread is not None:
            return spread
    if isinstance(a, Known) and isinstance(b, Known):
        return _plain(m, symbol, function, a, b, node)
    custom = overloaded(m, op, left, a, right, b, node)
    if custom is not None:
        return custom
    if isinstance(a, Seq) and isinstance(b, Seq) and symbol == "+":
        joined = Seq(a.items + b.items, a.kind, m.site(node), a.open or b.open)
        joined.born = m.context
        return joined
    if isinstance(a, Seq) and isinstance(b, Seq) and a.kind == b.kind == "set" and symbol in _OF_SETS:
        return combined(m, _OF_SETS[symbol], a, [b], node)
    if isinstance(a, Seq) and isinstance(b, Known) and symbol == "*" and isinstance(b.value, int):
        return _repeated(m, a, b.value, node)
    if isinstance(b, Seq) and isinstance(a, Known) and symbol == "*" and isinstance(a.value, int):
        return _repeated(m, b, a.value, node)
    if isinstance(a, Dict) and isinstance(b, Dict) and symbol == "|":
        return Dict({**a.entries, **b.entries}, m.site(node), a.open or b.open)
    if isinstance(a, Known) and isinstance(a.value, str) and symbol == "%":
        return _percent(m, a, b, node)
    if isinstance(a, Obj) and a.name.startswith("pathlib.") and symbol == "/":
        return _path(m, a, b, node)
    if _numeric(a) and _numeric(b) and not isinstance(a, Obj) and not isinstance(b, Obj):
        return Unknown(_reason(a, b), m.site(node), (left, right))
    return m.made("op", symbol, node, [left, right])


_OF_SETS = {"|": "union", "&": "intersection", "-": "difference", "^": "symmetric_difference"}
_METHODS = dict(
    zip(
        (*_BINARY, *COMPARED),
        "add sub mul truediv floordiv mod pow lshift rshift or and xor matmul eq ne lt le gt ge".split(),
        strict=True,
    )
)


def overloaded(m: Machine, op: Any, left: Value, a: Value, right: Value, b: Value, node: ast.AST) -> Value | None:
    """The result of an operator that a class of the project defines; None where it defines none."""
    name = _METHODS.get(type(op))
    for holder, settled, other, prefix in ((left, a, right, "__"), (right, b, left, "__r")):
        if isinstance(settled, Obj) and settled.cls is not None and name is not None:
            method = settled.cls.lookup(f"{prefix}{name}__")
            if isinstance(method, Func):
                from preflight.source.evaluate.functions import call_function

                return call_function(m, method, [holder, other], {}, node)
    return None


def _numeric(value: Value) -> bool:
    if isinstance(value, Choice):
        return not any(isinstance(option, (Obj, Phi)) for option in value.options)
    return isinstance(value, (Known, Unknown))


def _reason(*values: Value) -> str:
    for value in values:
        if isinstance(value, Unknown):
            return value.reason
    return "depends on a branch that cannot be decided without running the script"


def _over_choices(m: Machine, op: ast.operator, a: Value, b: Value, node: ast.AST) -> Value | None:
    """Spread an operation over the options, where all are plain; loose ends stay one node."""
    choice = a if isinstance(a, Choice) else b
    assert isinstance(choice, Choice)
    if len(choice.options) > 4 or not all(isinstance(o, Known) for o in choice.options):
        return None
    other = b if choice is a else a
    if not isinstance(other, Known):
        return None
    results = [apply(m, op, o, other, node) if choice is a else apply(m, op, other, o, node) for o in choice.options]
    if not all(isinstance(r, Known) for r in results):
        return None
    result = results[0]
    for more in results[1:]:
        result = join(result, more)
    if isinstance(result, Choice) and len(result.options) == len(choice.options):
        # The same test still tells which of them it is.
        return Choice(result.options, result.preferred, choice.test)
    return result


def _plain(m: Machine, symbol: str, function: Callable[[Any, Any], Any], a: Known, b: Known, node: ast.AST) -> Value:
    x, y = a.value, b.value
    if _too_large(symbol, x, y):
        return m.unknown("too large to compute here", node)
    try:
        result = function(x, y)
    except (TypeError, ValueError, ArithmeticError, MemoryError) as error:
        return m.unknown(f"cannot be computed: {error}", node, a, b)
    if isinstance(result, (list, tuple, dict, set)):
        return m.lift(result, node, how_of(a, b), a.soft or b.soft)
    return Known(result, m.site(node), how_of(a, b), a.soft or b.soft, (a, b))


def how_of(*values: Known) -> str:
    """Return where a result comes from: from the first operand that is neither written down nor computed."""
    for value in values:
        if value.how not in (None, "literal", "computed"):
            return str(value.how)
    return "computed"


def _too_large(symbol: str, x: Any, y: Any) -> bool:
    if symbol == "**":
        if isinstance(x, int) and isinstance(y, int):
            return x.bit_length() * max(abs(y), 1) > MAX_BITS
        return False
    if symbol == "<<":
        return isinstance(y, int) and y > MAX_BITS
    if symbol == "*":
        for text, count in ((x, y), (y, x)):
            if isinstance(text, (str, bytes)) and isinstance(count, int):
                return len(text) * count > MAX_SIZE
        if isinstance(x, int) and isinstance(y, int):
            return x.bit_length() + y.bit_length() > MAX_BITS
    if symbol == "%" and isinstance(x, (str, bytes)):
        digits = "".join(c if c.isdigit() else " " for c in str(x)).split()
        widths = any(len(d) > 3 for d in digits) or ("*" in str(x) and isinstance(y, (int, tuple)))
        return len(x) > MAX_SIZE or widths or (isinstance(y, (str, bytes)) and len(y) > MAX_SIZE)
    if symbol == "+" and isinstance(x, (str, bytes)) and isinstance(y, (str, bytes)):
        return len(x) + len(y) > 10 * MAX_SIZE
    return False


def is_soft(value: Value) -> bool:
    """Whether an option or the environment decides a value."""
    return bool(getattr(settle(value), "soft", False)) or (isinstance(value, Choice) and value.preferred is not None)


def _repeated(m: Machine, seq: Seq, count: int, node: ast.AST) -> Value:
    if len(seq.items) * max(count, 0) > MAX_SIZE:
        return Seq(list(seq.items), seq.kind, m.site(node), True)
    return Seq(seq.items * max(count, 0), seq.kind, m.site(node), seq.open)


def _percent(m: Machine, a: Known, b: Value, node: ast.AST) -> Value:

    worth = m.plain(b)
    if worth is not None and not _too_large("%", a.value, worth):
        try:
            text = a.value % worth
        except (TypeError, ValueError, KeyError, OverflowError):
            text = None
        if text is not None and len(text) <= 10 * MAX_SIZE:
            parts = b.items if isinstance(b, Seq) else [b]
            return Known(text, m.site(node), "computed", a.soft or any(map(is_soft, parts)), (a, *parts))
    return m.unknown("text with a part that is not known", node, a, b)


def _path(m: Machine, a: Obj, b: Value, node: ast.AST) -> Value:
    first = a.data if isinstance(a.data, str) else None
    if first is not None and isinstance(b, Known) and isinstance(b.value, str):
        result = m.made("call", "pathlib.Path", node, [a, b])
        result.data = first.rstrip("/") + "/" + b.value
        return result
    return m.made("call", "pathlib.Path", node, [a, b])


def augmented(m: Machine, node: ast.AugAssign) -> None:
    """``a += b``: lists grow in place, everything else is rebound."""
    from preflight.source.evaluate.assign import assign
    from preflight.source.evaluate.containers import repeats
    from preflight.source.evaluate.iteration import iterate

    evaluate = deep()
    target: Any = node.target
    load = type(target)(**{f: getattr(target, f) for f in target._fields if f != "ctx"}, ctx=ast.Load())
    ast.copy_location(load, target)
    before, change = evaluate(m, load), evaluate(m, node.value)
    settled = settle(before)
    if isinstance(settled, Seq) and isinstance(node.op, ast.Add) and settled.kind == "list":
        items, element = iterate(m, change, node)
        m.touch(settled)
        if items is not None:
            settled.items.extend(items[:MAX_SIZE])
        else:
            settled.items.append(element if element is not None else change)
        settled.open = settled.open or items is None or repeats(m, settled)
        m.event(".extend", node, None, before, [change], {})
        return
    if isinstance(settled, Obj) and settled.name in _GROWING and isinstance(node.op, ast.Add):
        from preflight.source.evaluate.calls import call_method

        call_method(m, settled, "extend", [change], {}, node)
        return
    result = apply(m, node.op, before, change, node)
    if isinstance(result, Obj):
        # On a tensor this is a method that works in place: it leaves a trace of its own.
        result.data = "augmented"
        event = m.event(f".{_IN_PLACE.get(type(node.op), '__iop__')}", node, None, before, [change], {})
        event.result = result
    assign(m, target, result, node)


def unary(m: Machine, node: ast.UnaryOp) -> Value:
    """``-a``, ``not a``, ``~a``."""
    from preflight.source.evaluate.branches import decide

    value = deep()(m, node.operand)
    settled = settle(value)
    if isinstance(node.op, ast.Not):
        verdict, soft = decide(m, value)
        if verdict is None:
            return _negated(m, value, node)
        return Known(not verdict, m.site(node), getattr(settled, "how", None) or "computed", soft, (value,))
    if isinstance(settled, Known):
        try:
            function: Any = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert}[type(node.op)]
            return Known(function(settled.value), m.site(node), settled.how, settled.soft, (settled,))
        except TypeError:
            return m.unknown("cannot be computed", node, value)
    if isinstance(settled, Unknown):
        return m.unknown(settled.reason, node, value)
    return m.made("op", "neg" if isinstance(node.op, ast.USub) else "~", node, [value])


def _negated(m: Machine, value: Value, node: ast.AST) -> Value:
    result = m.made("op", "not", node, [value])
    known = m.assumed.get(id(value))
    return Known(not known) if known is not None else result


def both(m: Machine, a: Value, b: Value, is_and: bool, before: bool | None, soft: bool, node: ast.AST) -> Value:
    """``a and b`` / ``a or b`` where a's truth is ``before``."""
    if before is not None:
        chosen = b if before is is_and else a
        if not soft:
            return chosen
        other = settle(chosen)
        if isinstance(other, Known):
            return Known(other.value, m.site(node), other.how, True, (a, b))
        return join(a, b, 1 if chosen is b else 0)
    if isinstance(settle(b), Known) and not is_and and not isinstance(settle(a), Obj):
        return join(b, a)
    return m.made("op", "and" if is_and else "or", node, [a, b])


def softened(value: Value, decided: bool | None) -> Value:
    """Mark the result of a conditional expression that an option decided as one that can be changed."""
    if isinstance(value, Choice) and decided is not None and value.preferred is not None:
        wanted = value.options[value.preferred]
        if isinstance(wanted, Known) and all(isinstance(o, Known) for o in value.options):
            return Known(
                wanted.value, wanted.site, wanted.how, True, (value,) if value.test is None else (value, value.test)
            )
    return value
