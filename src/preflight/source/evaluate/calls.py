"""Calls: of the project's own code, which is followed; of libraries, which are modelled or remembered."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from preflight.source.canonical import canonical
from preflight.source.evaluate.attributes import attribute
from preflight.source.evaluate.containers import call_container
from preflight.source.evaluate.expressions import evaluate
from preflight.source.evaluate.functions import call_function
from preflight.source.evaluate.iteration import iterate
from preflight.source.evaluate.library import Call, library_call
from preflight.source.evaluate.library.torch import wrapped_alike
from preflight.source.trace import Context
from preflight.source.values import (
    Bound,
    Choice,
    Class,
    Dict,
    Ext,
    Func,
    Known,
    Method,
    Obj,
    Partial,
    Phi,
    Seq,
    Unknown,
    Value,
    join,
    settle,
)

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine


def call_node(m: Machine, node: ast.Call) -> Value:
    """The value of a call as written."""
    if isinstance(node.func, ast.Attribute):
        base = evaluate(m, node.func.value)
        m.calling = node.func
        func = attribute(m, base, node.func.attr, node.func)
        m.calling = None
        if isinstance(base, Obj) and isinstance(func, Obj) and func.kind == "attr" and func.receiver is base:
            func = Method(base, node.func.attr, func.site)
    else:
        func = evaluate(m, node.func)
    sized = isinstance(func, Method) and func.name in _SIZED
    args, kwargs, open_ = arguments(m, node, sized)
    if isinstance(func, Ext) and func.name == "builtins.super":
        from preflight.source.evaluate.classes import super_of

        return super_of(m, args, node)
    return call(m, func, args, kwargs, node, open_)


_SIZED = frozenset(("view", "reshape", "expand", "repeat", "permute"))
"""Methods of a tensor that take sizes one by one or as one sequence."""


def arguments(m: Machine, node: ast.Call, sized: bool = False) -> tuple[list[Value], dict[str, Value], bool]:
    """Evaluate the arguments; the last result says whether further ones may be given that are not known.

    Args:
        m: The machine.
        node: The call.
        sized: Whether what is called takes one sequence as well as its items: ``view(*sizes)`` is ``view(sizes)``.
    """
    args: list[Value] = []
    kwargs: dict[str, Value] = {}
    open_ = False
    for arg in node.args:
        if isinstance(arg, ast.Starred):
            value = evaluate(m, arg.value)
            items, element = iterate(m, value, arg)
            if items is None and sized and len(node.args) == 1 and isinstance(settle(value), Obj):
                args.append(value)
                continue
            open_ = open_ or isinstance(settle(value), Choice)  # one of several lists: which one is not known
            if items is not None:
                args.extend(items)
            else:
                open_ = True
                if element is not None and isinstance(settle(value), Seq):
                    args.extend(settle(value).items)  # type: ignore[attr-defined]
        else:
            args.append(evaluate(m, arg))
    for keyword in node.keywords:
        value = evaluate(m, keyword.value)
        if keyword.arg is not None:
            kwargs[keyword.arg] = value
            continue
        table = settle(value)
        if isinstance(table, Dict):
            kwargs.update({str(k): v for k, v in table.entries.items() if isinstance(k, str) and not k.startswith("<")})
            open_ = open_ or table.open
        else:
            open_ = True
    return args, kwargs, open_


def call(
    m: Machine, func: Value, args: list[Value], kwargs: dict[str, Value], node: ast.AST, open_: bool = False
) -> Value:
    """Call a value."""
    m.tick()
    if isinstance(func, Func):
        return call_function(m, func, args, kwargs, node, open_)
    if isinstance(func, Bound):
        return call_function(m, func.func, [func.receiver, *args], kwargs, node, open_)
    if isinstance(func, Ext):
        return _external(m, func, args, kwargs, node, open_)
    if isinstance(func, Class):
        from preflight.source.evaluate.classes import instantiate

        return instantiate(m, func, args, kwargs, node, open_)
    if isinstance(func, Method):
        return _method(m, func, args, kwargs, node, open_)
    if isinstance(func, Partial):
        return call(m, func.func, [*func.args, *args], {**func.kwargs, **kwargs}, node, open_)
    if isinstance(func, Phi):
        return call(m, func.initial, args, kwargs, node, open_)
    if isinstance(func, Choice):
        return _choice(m, func, args, kwargs, node, open_)
    if isinstance(func, Obj):
        return _object(m, func, args, kwargs, node, open_)
    event = m.event("?", node, func, None, args, kwargs)
    result = m.made("call", "?", node, args, kwargs, receiver=func)
    result.open_args = open_
    event.result = result
    m.trace.results[id(result)] = event
    return result


_JOINS = frozenset({"torch.cat", "torch.concat", "torch.concatenate", "torch.stack", "torch.hstack", "torch.vstack"})


def _external(m: Machine, func: Ext, args: list[Value], kwargs: dict[str, Value], node: ast.AST, open_: bool) -> Value:
    if func.name in _JOINS:
        # A list that grows while the script goes on is joined as it is now.
        args = [Seq(list(a.items), a.kind, a.site, a.open) if isinstance(a, Seq) else a for a in args]
    event = m.event(func.name, node, func, None, args, kwargs)
    result = library_call(m, Call(func.name, None, args, kwargs, node, open_, event))
    if result is None:
        made = m.made("call", func.name, node, args, kwargs)
        made.open_args = open_
        result = made
    event.result = result
    m.trace.results.setdefault(id(result), event)
    return result


def _method(m: Machine, func: Method, args: list[Value], kwargs: dict[str, Value], node: ast.AST, open_: bool) -> Value:
    receiver, name = _something(func.receiver), func.name
    event = m.event("." + name, node, func, receiver, args, kwargs)
    base = settle(receiver)
    if isinstance(base, Choice):
        base = next((o for o in base.options if isinstance(o, (Obj, Seq, Dict))), base)
    result: Value | None = None
    if isinstance(base, (Seq, Dict, Known)):
        result = call_container(m, base, name, args, kwargs, node, receiver)
    elif isinstance(base, Class):
        result = _class_method(m, base, name, args, kwargs, node, open_)
    if result is None:
        for type_name in type_names(base):
            full = canonical(f"{type_name}.{name}")
            result = library_call(m, Call(full, receiver, args, kwargs, node, open_, event))
            if result is not None:
                break
        else:
            result = library_call(m, Call("." + name, receiver, args, kwargs, node, open_, event))
    if result is None:
        made = m.made("call", "." + name, node, args, kwargs, receiver)
        made.open_args = open_
        result = made
    event.result = result
    m.trace.results.setdefault(id(result), event)
    return result


def _something(receiver: Value) -> Value:
    """What a method is called on, where it may be None by the defaults: a call that is reached is not made on None."""
    base = settle(receiver)
    if isinstance(receiver, Choice) and isinstance(base, Known) and base.value is None:
        others = tuple(o for o in receiver.options if not (isinstance(o, Known) and o.value is None))
        if others:
            return others[0] if len(others) == 1 else Choice(others, None, receiver.test)
    return receiver


def type_names(base: Value) -> list[str]:
    """Full names of the external types that a thing has: its own, or those its class derives from."""
    if isinstance(base, Obj):
        if base.cls is not None:
            return base.cls.external_bases()
        return [base.name] if base.kind in {"call", "param", "copy"} and base.name else []
    return []


def _class_method(
    m: Machine, cls: Class, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST, open_: bool
) -> Value | None:
    """``Sub.from_pretrained(...)``: a constructor inherited from a library makes an instance of the class."""
    if name.startswith(("from_", "load_")) or name in {"create", "build"}:
        made = m.made("instance", (cls.external_bases() or ["?"])[0] + "." + name, node, args, kwargs, cls=cls)
        made.open_args = open_
        return made
    return None


def _choice(m: Machine, func: Choice, args: list[Value], kwargs: dict[str, Value], node: ast.AST, open_: bool) -> Value:
    if wrapped_alike(func) is not None:
        return call(m, func.options[0], args, kwargs, node, open_)
    settled = settle(func)
    if not isinstance(settled, Choice):
        result = call(m, settled, args, kwargs, node, open_)
        others = [o for o in func.options if o is not settled and isinstance(o, Ext)]
        for other in others[:3]:
            result = _join_external(m, result, other, args, kwargs, node, open_)
        return result
    found: Value | None = None
    for option in [o for o in settled.options if not isinstance(o, Known)][:3]:
        value = call(m, option, args, kwargs, node, open_)
        found = value if found is None else join(found, value)
    return found if found is not None else m.unknown("a call of something that is not known", node, func)


def _join_external(
    m: Machine, result: Value, other: Ext, args: list[Value], kwargs: dict[str, Value], node: ast.AST, open_: bool
) -> Value:
    outer = m.context
    m.context = Context(outer, "if", node, m.frame.module.script, None, False, False)
    try:
        return join(result, call(m, other, args, kwargs, node, open_), 0)
    finally:
        m.context = outer


def _object(m: Machine, func: Obj, args: list[Value], kwargs: dict[str, Value], node: ast.AST, open_: bool) -> Value:
    """Call an object: a module runs its ``forward``; others their ``__call__``."""
    if func.kind == "attr" and func.receiver is not None:
        return _method(m, Method(func.receiver, func.name, func.site), args, kwargs, node, open_)
    event = m.event("()", node, func, func, args, kwargs)
    result: Value | None = None
    if func.cls is not None:
        for name in ("forward", "__call__") if _has_forward(func) else ("__call__", "forward"):
            member = func.cls.lookup(name)
            if isinstance(member, Func):
                event.inlined = True
                result = call_function(m, member, [func, *args], kwargs, node, open_)
                break
    if result is None:
        names = type_names(func)
        for type_name in names:
            result = library_call(m, Call(type_name + ".()", func, args, kwargs, node, open_, event))
            if result is not None:
                break
    if result is None or (isinstance(result, Known) and _has_forward(func)):
        made = m.made("call", "()", node, args, kwargs, func)
        made.open_args = open_
        result = made
    event.result = result
    m.trace.results.setdefault(id(result), event)
    return result


def _has_forward(obj: Obj) -> bool:
    return (
        obj.cls is not None
        and isinstance(obj.cls.lookup("forward"), Func)
        and any(n.startswith(("torch.nn.", "lightning.", "transformers.", "timm.")) for n in obj.cls.external_bases())
    )


def call_method(m: Machine, obj: Obj, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """Call a method of an instance by name."""
    member = obj.cls.lookup(name) if obj.cls is not None else None
    if isinstance(member, Func):
        return call_function(m, member, [obj, *args], kwargs, node)
    return _method(m, Method(obj, name), args, kwargs, node, False)


__all__ = ["Unknown", "call", "call_method", "call_node"]
