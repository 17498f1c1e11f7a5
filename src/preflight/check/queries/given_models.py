"""Models that a function is given, and what may put one back into train mode without its name."""

from __future__ import annotations

import ast

from preflight.check.context import Context
from preflight.check.queries.modes import concerns, models_of
from preflight.source.evaluate.library.methods import is_module
from preflight.source.trace import Context as Frame
from preflight.source.trace import Event
from preflight.source.training import TrainingLoop
from preflight.source.values import Obj, Unknown

_HOOKS = ("on_", "before_", "after_")
"""How the names of what callbacks do begin; they may hold the model."""


def given_models(context: Context, loop: TrainingLoop) -> list[Unknown]:
    """Models that a function is given, and that nobody was seen to make: what is put into eval mode around a loop."""
    around = loop.frame.loops()
    found = {
        id(model): model
        for event in context.trace.calls(".eval")
        if any(event.context.within(frame) for frame in around)
        for model in models_of(event.receiver)
        if isinstance(model, Unknown)
    }
    return list(found.values())


def may_be_undone(context: Context, model: Unknown, event: Event, common: Frame) -> bool:
    """Whether something in the loop may put a model that was handed in back into train mode without its name."""
    copied = [given for e in context.trace.calls("copy.deepcopy", "copy.copy") for given in e.args]
    if any(m is model for given in copied for m in models_of(given)):
        return True  # the copy that is evaluated is another model
    if any(store.name == "training" and store.context.within(common) for store in context.trace.stores):
        return True
    empty = {f.name for script in context.reading.scripts for f in script.nodes(ast.FunctionDef) if _is_empty(f)}
    for other in context.trace.events:
        if not other.context.within(common):
            continue
        method = other.name.rpartition(".")[2]
        if method == "train" or (other.name == ".apply" and concerns(other, model)) or method.startswith(_HOOKS):
            return True
        if method in empty if other.inlined else _in_another_file(other):
            return True
    return _in_the_last_pass(event, common)


def _in_another_file(event: Event) -> bool:
    """Whether a call is of a method that the class of an object has from elsewhere."""
    holder = event.receiver
    return event.name.startswith(".") and isinstance(holder, Obj) and holder.cls is not None and not is_module(holder)


def _is_empty(function: ast.FunctionDef) -> bool:
    """Whether a function does nothing, so that a class that extends its own says what it does."""
    return all(
        isinstance(part, (ast.Pass, ast.Raise)) or (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))
        for part in function.body
    )


def _in_the_last_pass(event: Event, common: Frame) -> bool:
    """Whether a test asks whether the variable of a loop has come to an end: ``if epoch == epochs - 1``."""
    target = getattr(common.node, "target", None)
    names = {part.id for part in ast.walk(target) if isinstance(part, ast.Name)} if target is not None else set()
    for frame in event.context.frames():
        test = getattr(frame.node, "test", None)
        if frame is common:
            break
        if frame.kind == "if" and isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Eq, ast.GtE)):
            sides = (test.left, test.comparators[0])
            if any(
                isinstance(part, ast.Name) and part.id in names
                for side in sides
                for part in (side.left if isinstance(side, ast.BinOp) and isinstance(side.op, ast.Add) else side,)
            ):
                return True
    return False
