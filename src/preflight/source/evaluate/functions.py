"""Functions of the project: definition, binding of arguments, following the body."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from preflight.errors import InputError
from preflight.source.evaluate.expressions import evaluate
from preflight.source.evaluate.frame import Frame
from preflight.source.evaluate.machine import MAX_DEPTH
from preflight.source.evaluate.recursion import endless
from preflight.source.trace import Context
from preflight.source.values import (
    Bound,
    Class,
    Dict,
    Ext,
    Func,
    Known,
    Obj,
    Partial,
    Seq,
    Unknown,
    Value,
    join,
    options_of,
    settle,
)

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

# Decorators that are entered around the body like a ``with`` block.
_AROUND = (
    "torch.no_grad",
    "torch.inference_mode",
    "torch.enable_grad",
    "torch.set_grad_enabled",
    "torch.autocast",
    "torch.cuda.amp.autocast",
)


def make_function(m: Machine, node: Any, name: str, owner: Class | None = None) -> Func:
    """A function value; defaults are evaluated now, as Python does."""
    prefix = f"{owner.qualname}." if owner is not None else ""
    closure = m.frame if m.frame.func is not None or m.frame.locals is not m.frame.module.namespace else None
    if owner is not None:
        closure = m.frame.closure
    func = Func(node, m.frame.module, closure, prefix + name, m.site(node))
    func.owner = owner
    args = node.args
    positional = [*args.posonlyargs, *args.args]
    for arg, default in zip(positional[len(positional) - len(args.defaults) :], args.defaults, strict=True):
        func.defaults[arg.arg] = evaluate(m, default)
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        if default is not None:
            func.defaults[arg.arg] = evaluate(m, default)
    return func


def define_function(m: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef, owner: Class | None = None) -> Value:
    """Bind a function definition, through its decorators."""
    func = make_function(m, node, node.name, owner)
    value: Value = func
    for expression in reversed(node.decorator_list):
        decorator = evaluate(m, expression)
        func.decorators.append(decorator)
        value = decorate(m, decorator, value, expression)
    m.bind(node.name, value)
    return value


def decorate(m: Machine, decorator: Value, value: Value, node: ast.AST) -> Value:
    """What a name is bound to after a decorator; one that cannot be followed is taken to keep what it is given."""
    from preflight.source.evaluate.calls import call, type_names

    settled = settle(decorator)
    if isinstance(settled, (Func, Bound, Class, Partial)) and len(m.call_stack) < MAX_DEPTH:
        result = settle(call(m, settled, [value], {}, node))
        if isinstance(result, Func) and isinstance(value, Func):
            result.decorators = [*value.decorators, *(d for d in result.decorators if d not in value.decorators)]
        if isinstance(result, (Func, Class)) or (isinstance(result, Obj) and result.kind == "instance"):
            return result
        around = _entered_by(result)
        if around is not None and isinstance(value, Func):
            value.decorators.append(around)  # ``(torch.inference_mode if new else torch.no_grad)()(function)``
        return value
    if isinstance(settled, (Ext, Obj)):
        from preflight.source.evaluate.library import Call, library_call

        name = settled.name
        event = m.event("@" + name, node, settled, None, [value], {})
        if name.startswith(".") and isinstance(settled, Obj) and settled.receiver is not None:
            name = next(iter(type_names(settle(settled.receiver))), "") + name  # ``@app.command()``
        result = library_call(m, Call("@" + name, settled, [value], {}, node, False, event)) or value
        event.result = result
        return result
    return value


def _entered_by(result: Value) -> Value | None:
    """What a decorator of the project enters around the function it was given, when it hands on one of PyTorch's."""
    for made in options_of(result):
        if isinstance(made, Obj) and made.name == "()" and made.receiver is not None:
            return next((o for o in options_of(made.receiver) if getattr(o, "name", None) in _AROUND), None)
    return None


def call_function(
    m: Machine, func: Func, args: list[Value], kwargs: dict[str, Value], node: ast.AST, open_: bool = False
) -> Value:
    """Follow a call of a function of the project."""
    event = m.event(func.qualname, node, func, None, args, kwargs)
    if m.call_stack.count(func) >= 2 and endless(m.context, func, node):
        place = func.module.script.location(func.node)
        raise InputError(f"{place.path}:{place.line}: {func.qualname} calls itself without end: the script cannot run")
    numbers = _whole_numbers(args)
    deep = _DESCENDS if _descends(m, func, numbers) else 2
    if m.call_stack.count(func) >= deep or len(m.call_stack) >= MAX_DEPTH or _worn(m, func):
        result: Value = m.made("call", func.qualname, node, args, kwargs)
        event.result = result
        return result
    event.inlined = True
    m.entered.add(id(func.node))
    scope = bind_arguments(m, func, args, kwargs, node, open_)
    frame = Frame(func.module, scope, func.closure, func)
    frame.owner = func.owner
    if func.owner is not None and args:
        frame.self_value = args[0]
    outer_frame, outer_context, outer_implied, placed = m.frame, m.context, m.implied, m.placed
    if func.module.script.drawing and not outer_frame.module.script.drawing:
        from preflight.source.evaluate.drawings import class_of

        m.placed = placed or m.site(node)
        scope.update({name: class_of(m, value) for name, value in scope.items()})
    m.frame = frame
    m.context = Context(outer_context, "call", node, outer_frame.module.script, func)
    for decorator in func.decorators:
        name = getattr(decorator, "name", "")
        if name in _AROUND or (isinstance(decorator, Obj) and decorator.kind == "generator"):
            m.context = Context(m.context, "with", func.node, func.module.script, decorator)
    inner = m.context
    m.call_stack.append(func)
    m.numbers.setdefault(id(func), []).append(numbers)
    begun = m.steps
    try:
        result = _body(m, func, frame, node, inner)
    finally:
        m.call_stack.pop()
        m.numbers[id(func)].pop()
        times, steps = m.spent.get(id(func.node), (0, 0))
        m.spent[id(func.node)] = (times + 1, steps + m.steps - begun)
        m.frame, m.context, m.implied, m.placed = outer_frame, outer_context, outer_implied, placed
    event.result = result
    m.trace.results.setdefault(id(result), event)
    return result


_DESCENDS = 10
"""So often a function may be inside itself that counts a known number down."""


def _whole_numbers(args: list[Value]) -> tuple[int, ...]:
    found = [value.value for value in map(settle, args) if isinstance(value, Known)]
    return tuple(number for number in found if isinstance(number, int) and not isinstance(number, bool))


def _descends(m: Machine, func: Func, numbers: tuple[int, ...]) -> bool:
    """Whether a function that calls itself does so with a smaller number: it comes to an end."""
    held = m.numbers.get(id(func))
    last = held[-1] if held else None
    if last is None or len(last) != len(numbers):
        return False
    return numbers != last and all(new <= old for new, old in zip(numbers, last, strict=True))


OFTEN = 12
MUCH = 40_000


def _worn(m: Machine, func: Func) -> bool:
    """Whether a function was followed often and at such a cost that more tells nothing new.

    Constructors are always followed: every layer counts.
    """
    times, steps = m.spent.get(id(func.node), (0, 0))
    if times < OFTEN or steps < MUCH:
        return False
    return not any(isinstance(f, Func) and f.qualname.endswith(".__init__") for f in (*m.call_stack, func))


def _body(m: Machine, func: Func, frame: Frame, node: ast.AST, context: Context) -> Value:
    from preflight.source.evaluate.statements import run_block

    if isinstance(func.node, ast.Lambda):
        return evaluate(m, func.node.body)
    signal = run_block(m, func.node.body)
    if func.generator:
        made = m.made("generator", func.qualname, node)
        made.data = frame.yields
        made.context = context
        return made
    result: Value | None = None
    preferred: Value | None = None
    for value, shadow in frame.returns:
        if not shadow and preferred is None:
            preferred = value
        result = value if result is None else join(result, value)
    if signal is None and not any(not shadow for _, shadow in frame.returns):
        nothing = Known(None)
        if result is None:
            return nothing
        result, preferred = join(result, nothing), nothing
    if result is None:
        return m.unknown(f"{func.qualname} always raises, with what is known of its arguments", node)
    if preferred is not None and preferred is not result and len({s for _, s in frame.returns}) > 1:
        first = join(preferred, result, 0)
        return first
    return result


def bind_arguments(
    m: Machine, func: Func, args: list[Value], kwargs: dict[str, Value], node: ast.AST, open_: bool
) -> dict[str, Value]:
    """Bind arguments to parameters; what is missing is unknown, never an error."""
    spec = func.node.args
    scope: dict[str, Value] = {}
    positional = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    scope.update(zip(positional, args, strict=False))
    extra = args[len(positional) :]
    rest = dict(kwargs)
    for name in (*positional, *(a.arg for a in spec.kwonlyargs)):
        if name in rest:
            scope[name] = rest.pop(name)
        elif name not in scope:
            default = func.defaults.get(name)
            if default is not None and not open_:
                scope[name] = default
            else:
                reason = f"parameter {name} of {func.qualname}"
                missing = Unknown(reason, m.site(node), name=name)
                scope[name] = join(default, missing, 0) if default is not None else missing
    if spec.vararg is not None:
        scope[spec.vararg.arg] = Seq(extra, "tuple", m.site(node), open_ and not extra)
    if spec.kwarg is not None:
        scope[spec.kwarg.arg] = Dict(rest, m.site(node), open_)
    return scope
