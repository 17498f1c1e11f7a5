"""Statements: how each changes the scope, the structure and the trace.

A statement returns a signal: None when control goes on, else ``return``, ``break``, ``continue``, ``raise``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from preflight.source.evaluate.assign import assign, delete
from preflight.source.evaluate.branches import run_if, run_match, run_try
from preflight.source.evaluate.classes import define_class
from preflight.source.evaluate.expressions import evaluate
from preflight.source.evaluate.functions import define_function
from preflight.source.evaluate.imports import run_import, run_import_from
from preflight.source.evaluate.loops import run_for, run_while
from preflight.source.evaluate.operators import augmented
from preflight.source.evaluate.withs import run_with
from preflight.source.values import Known, Seq, Value

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

Signal = str | None


def run_block(machine: Machine, body: list[ast.stmt]) -> Signal:
    """Follow statements in order; what an early exit implies holds for the rest of the block."""
    outer = machine.context
    try:
        for statement in body:
            machine.implied = None
            machine.tick()
            signal = _RUN[type(statement)](machine, statement)
            if signal is not None:
                return signal
            implied = machine.take_implied()
            if implied is not None:
                machine.context = implied
        return None
    finally:
        machine.context = outer
        machine.implied = None


def _expr(m: Machine, node: ast.Expr) -> Signal:
    value = evaluate(m, node.value)
    return "raise" if getattr(value, "name", "") in _ENDS and isinstance(node.value, ast.Call) else None


_ENDS = frozenset({"sys.exit", "builtins.exit", "builtins.quit", "os._exit", "os.abort"})


def _assign(m: Machine, node: ast.Assign) -> Signal:
    value = evaluate(m, node.value)
    for target in node.targets:
        assign(m, target, value, node)
    return None


def _ann_assign(m: Machine, node: ast.AnnAssign) -> Signal:
    if node.value is not None:
        assign(m, node.target, evaluate(m, node.value), node)
    return None


def _aug_assign(m: Machine, node: ast.AugAssign) -> Signal:
    augmented(m, node)
    return None


def _return(m: Machine, node: ast.Return) -> Signal:
    value: Value = evaluate(m, node.value) if node.value is not None else Known(None)
    m.frame.returns.append((value, m.context.shadow))
    return "return"


def _raise(m: Machine, node: ast.Raise) -> Signal:
    if node.exc is not None:
        evaluate(m, node.exc)
    return "raise"


def _assert(m: Machine, node: ast.Assert) -> Signal:
    from preflight.source.evaluate.branches import decide

    value = evaluate(m, node.test)
    verdict, _ = decide(m, value)
    if verdict is False:  # one that holds, or may hold, tells nothing
        m.event("assert", node, None, None, [value], {})
    return None


def _delete(m: Machine, node: ast.Delete) -> Signal:
    for target in node.targets:
        delete(m, target)
    return None


def _global(m: Machine, node: ast.Global) -> Signal:
    m.frame.globals_.update(node.names)
    return None


def _nonlocal(m: Machine, node: ast.Nonlocal) -> Signal:
    m.frame.nonlocals.update(node.names)
    return None


def _function(m: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Signal:
    define_function(m, node)
    return None


def _class(m: Machine, node: ast.ClassDef) -> Signal:
    define_class(m, node)
    return None


def _nothing(m: Machine, node: ast.stmt) -> Signal:
    return None


def _type_alias(m: Machine, node: Any) -> Signal:
    m.bind(node.name.id, Seq([], open_=True))
    return None


_RUN: dict[type, Callable[[Any, Any], Signal]] = {
    ast.Expr: _expr,
    ast.Assign: _assign,
    ast.AnnAssign: _ann_assign,
    ast.AugAssign: _aug_assign,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.Assert: _assert,
    ast.Delete: _delete,
    ast.Global: _global,
    ast.Nonlocal: _nonlocal,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
    ast.Pass: _nothing,
    ast.Break: lambda m, n: "break",
    ast.Continue: lambda m, n: "continue",
    ast.Import: run_import,
    ast.ImportFrom: run_import_from,
    ast.If: run_if,
    ast.For: run_for,
    ast.AsyncFor: run_for,
    ast.While: run_while,
    ast.With: run_with,
    ast.AsyncWith: run_with,
    ast.Try: run_try,
    ast.Match: run_match,
}
if hasattr(ast, "TryStar"):
    _RUN[ast.TryStar] = run_try
if hasattr(ast, "TypeAlias"):
    _RUN[ast.TypeAlias] = _type_alias
