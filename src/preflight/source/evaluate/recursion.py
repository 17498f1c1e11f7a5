"""Functions that call themselves without end: not a question of values, so it can be said for certain."""

from __future__ import annotations

import ast

from preflight.source.trace import Context
from preflight.source.values import Func

_BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.Try,
    ast.With,
    ast.AsyncWith,
    ast.BoolOp,
    ast.Lambda,
)
_LATER = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Compare, ast.Await, ast.Yield, ast.YieldFrom)
_ENDS = (ast.Return, ast.Raise, ast.Yield, ast.YieldFrom)


def endless(context: Context | None, func: Func, node: ast.AST) -> bool:
    """Whether a call of a function that is being followed already can have no end.

    That is so when each function on the way calls the next in a statement that is always reached: nothing before it
    returns or raises, and no branch, loop or handler lies around it.

    Args:
        context: The place of the call.
        func: The function that is called once more.
        node: The call.
    """
    call, frame = node, context
    while frame is not None:
        if frame.kind != "call" or not isinstance(frame.value, Func) or not _always_reached(frame.value, call):
            return False
        if frame.value is func:
            return frame.node is not None and _runs_for_certain(frame.parent)
        assert frame.node is not None
        call, frame = frame.node, frame.parent
    return False


def _always_reached(func: Func, call: ast.AST) -> bool:
    body = func.node.body
    if not isinstance(body, list) or func.decorators or func.generator or isinstance(func.node, ast.AsyncFunctionDef):
        return False
    for statement in body:
        parts = list(ast.walk(statement))
        if any(part is call for part in parts):
            around = (part for part in parts if isinstance(part, (*_BRANCHES, *_LATER)))
            return not any(inner is call for part in around for inner in ast.walk(part))
        if any(isinstance(part, _ENDS) for part in parts) or _may_leave(parts):
            return False
    return False


def _may_leave(parts: list[ast.AST]) -> bool:
    """Whether a statement may end the program: any call may."""
    return any(isinstance(part, (ast.Call, ast.Assert)) for part in parts)


def _runs_for_certain(context: Context | None) -> bool:
    """Whether a place lies on the script's plain way: in no branch, handler, or function that nothing called."""
    while context is not None and context.kind in ("call", "with"):
        context = context.parent
    # The root of the script itself has no function.
    return context is None or (context.kind == "root" and context.value is None)
