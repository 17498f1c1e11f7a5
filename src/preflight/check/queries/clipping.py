"""Clipping: whether anything limits the gradients of a training loop, and how a limit is put in."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from preflight.source.trace import provenance
from preflight.source.training import TrainingLoop
from preflight.source.values import Obj, Value, options_of, settle

if TYPE_CHECKING:
    from preflight.check.context import Context
    from preflight.vocabulary.finding import Edit


def clips(context: Context, loop: TrainingLoop) -> bool:
    """Whether anything in the loop limits gradients, or may: code that cannot be seen and is given model or optimizer."""
    if loop.clips or any(s.name == "grad" and s.context.within(loop.frame) for s in context.trace.stores):
        return True
    if context.trace.calls(".register_hook", ".register_full_backward_hook", ".register_post_accumulate_grad_hook"):
        return True
    for event in loop.events:
        if "clip" in event.name or (event.name.endswith("_") and _is_gradient(event.receiver)):
            return True
        if event.inlined or event.name.startswith(("builtins.", "torch.", ".")) or event.name == "()":
            continue
        for value in (*event.args, *event.kwargs.values()):
            if (
                context.roles.of(value) in ("optimizer", "model", "scaler")
                or getattr(settle(value), "name", "") == ".parameters"
            ):
                return True
    roles = {context.roles.of(s.receiver) for s in loop.steps}
    return "engine" in roles or any(
        e.name in ("torch.clamp", ".clamp") and _is_gradient(_first(e.args)) for e in loop.events
    )


def _first(args: list[Value]) -> Value | None:
    return args[0] if args else None


def _is_gradient(value: Value | None) -> bool:
    for option in options_of(value):
        for part in provenance(option, 6):
            if isinstance(part, Obj) and part.kind == "attr" and part.name == "grad":
                return True
    return False


def clip_edit(context: Context, loop: TrainingLoop) -> Edit | None:
    """Insert the call where the optimizer's parameters can be named in one word."""
    step = loop.steps[0]
    if context.roles.of(step.receiver) != "optimizer" or not isinstance(step.node, ast.Call) or step.args:
        return None
    optimizer = next((o for o in options_of(step.receiver) if isinstance(o, Obj)), None)
    first = settle(optimizer.args[0]) if optimizer is not None and optimizer.args else None
    if (
        not isinstance(first, Obj)
        or first.name != ".parameters"
        or first.site is None
        or first.site.script is not step.script
    ):
        return None
    names = {
        a.asname or a.name
        for n in step.script.tree.body
        if isinstance(n, (ast.Import, ast.ImportFrom))
        for a in n.names
    }
    text = first.site.script.segment(first.site.node)
    if "torch" not in names or step.script is not context.reading.script:
        return None
    return context.insert_before(step, f"torch.nn.utils.clip_grad_norm_({text}, 1.0)")
