"""``with`` blocks: what is entered is part of the structure around everything inside."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from preflight.source.evaluate.assign import assign
from preflight.source.evaluate.expressions import evaluate
from preflight.source.trace import Context
from preflight.source.values import Choice, Obj, Value, options_of, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine


def run_with(m: Machine, node: ast.With | ast.AsyncWith) -> str | None:
    """Follow a with statement."""
    from preflight.source.evaluate.statements import run_block

    outer = m.context
    try:
        for item in node.items:
            manager = evaluate(m, item.context_expr)
            entered = enter(m, manager, node)
            if item.optional_vars is not None:
                assign(m, item.optional_vars, entered, node)
        return run_block(m, node.body)
    finally:
        m.context = outer


def enter(m: Machine, manager: Value, node: ast.AST) -> Value:
    """Enter a context manager: push it on the structure and return what ``as`` binds."""
    settled = settle(manager)
    if (
        isinstance(manager, Choice)
        and settled is not manager
        and any(isinstance(o, Obj) and o.kind == "generator" for o in options_of(manager))
    ):
        manager = settled
    if isinstance(settled, Obj) and settled.kind == "generator" and isinstance(settled.data, list):
        # A generator used as a context manager: what it had entered at its yield is entered here.
        value: Value = settled
        for yielded, context in settled.data[:1]:
            value = yielded
            frames = []
            for frame in context.frames():
                if frame is settled.context:
                    break
                if frame.kind == "with" and frame.value is not None:
                    frames.append(frame)
            for frame in reversed(frames):
                m.context = Context(m.context, "with", frame.node, frame.script, frame.value)
        m.context = Context(m.context, "with", node, m.frame.module.script, settled)
        return value
    if isinstance(settled, Obj) and settled.cls is not None and settled.cls.lookup("__enter__") is not None:
        from preflight.source.evaluate.calls import call_method

        m.context = Context(m.context, "with", node, m.frame.module.script, manager)
        return call_method(m, settled, "__enter__", [], {}, node)
    m.context = Context(m.context, "with", node, m.frame.module.script, manager)
    return manager
