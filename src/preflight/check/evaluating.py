"""What an evaluation that records gradients keeps: the graph of its batch, and often that of the batch before."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import msgspec

from preflight.check.context import Context
from preflight.check.queries.counts import length_of
from preflight.check.queries.evaluations import Evaluation, evaluations_with_gradients
from preflight.check.queries.kept_graphs import PLAIN_ATTRIBUTES, graph_of
from preflight.source.evaluate.library.torch import wrapped
from preflight.source.facts.precision import autocast_of, autocast_unknown
from preflight.source.trace import Event, provenance
from preflight.source.values import Obj, Value, options_of, plain
from preflight.vocabulary.run import Precision, RunSpec


def with_evaluation(context: Context) -> RunSpec | None:
    """The run with what its evaluations keep; None where they turn gradients off, or not everything was followed."""
    models, largest = context.reading.models, context.run.evaluation_micro_batch
    if not models or largest is None or not context.reading.complete:
        return None
    evaluations = [(one, call) for one in evaluations_with_gradients(context) for call in one.calls[:1]]
    evaluations = [(one, call) for one, call in evaluations if _is_of(call, models[0])]
    batch = max((_batch(context, one) or 0 for one, _ in evaluations), default=0)
    if 2 * batch < largest:
        return None  # a batch that is larger takes no less without a graph, and one of unknown size is not told
    outside = [_precision(context, call) for _, call in evaluations]
    return msgspec.structs.replace(
        context.run,
        evaluation_micro_batch=batch,
        evaluation_without_no_grad=True,
        evaluation_keeps_last=any(_keeps_last(context, one) for one, _ in evaluations),
        evaluation_precision="fp32" if "fp32" in outside else None,
        evaluation_recomputes=not _in_evaluation_mode(context, models[0]),
    )


def _batch(context: Context, evaluation: Evaluation) -> int | None:
    """The batch of the loader that an evaluation goes over; None where it is not known."""
    loaders = (one for one in provenance(evaluation.frame.value, 60) if context.roles.of(one) == "loader")
    size = plain(loader.argument(1, "batch_size")) if isinstance(loader := next(loaders, None), Obj) else None
    return size if isinstance(size, int) and not isinstance(size, bool) else None


def _is_of(call: Event, model: object) -> bool:
    """Whether a call is one of the model whose sizes are known, or of what wraps it."""
    return any(one is model or wrapped(one) is model for one in options_of(call.receiver, limit=4))


def _in_evaluation_mode(context: Context, model: Value) -> bool:
    """Whether a model of a library, which recomputes while it trains alone, is put into evaluation mode."""
    return any(
        isinstance(one, Obj) and one.cls is None and one.name.startswith(("transformers.", "peft."))
        for one in options_of(model)
    ) and any(not event.context.shadow and _is_of(event, model) for event in context.trace.calls(".eval"))


def _precision(context: Context, call: Event) -> Precision | None:
    """``fp32`` for an evaluation that stands outside of the autocast which its training stands in, else None."""
    first = next(
        (
            event
            for event in context.reading.loops[0].events
            if event.name == "()" and not event.context.shadow and _is_of(event, context.reading.models[0])
        ),
        None,
    )
    if first is None or autocast_of(first.context) != context.run.precision or autocast_unknown(call.context):
        return None  # what sets it is no block around the call: the evaluation may have it, too
    return "fp32" if autocast_of(call.context) in (None, "fp32") else None


def _keeps_last(context: Context, evaluation: Evaluation) -> bool:
    """Whether a variable of the loop holds a graph at the end of a pass: Python frees it once the next one is there."""
    body, value = evaluation.frame.node, evaluation.frame.value
    if not isinstance(body, ast.For) or value is None:
        return False
    batches = length_of(context, value)
    if not batches.powers and batches.factor <= 1:
        return False  # all samples in one batch
    last: dict[str, ast.stmt] = {}
    for node in ast.walk(body):
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Delete)):
            targets = node.targets if isinstance(node, (ast.Assign, ast.Delete)) else [node.target]
            for name in (n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)):
                if name not in last or _place(last[name]) < _place(node):
                    last[name] = node
    made = {id(call) for one in last.values() if isinstance(one, ast.Assign) for call in _calls(one.value)}
    return any(id(event.node) in made and graph_of(context, event.result) is not None for event in evaluation.inside)


def _calls(value: ast.expr) -> Iterator[ast.Call]:
    """The calls whose results an expression still holds: ``model(x).loss / 2`` holds what the model returned."""
    if isinstance(value, ast.Call):
        yield value
    elif isinstance(value, ast.Subscript) or (isinstance(value, ast.Attribute) and value.attr not in PLAIN_ATTRIBUTES):
        yield from _calls(value.value)
    elif isinstance(value, ast.BinOp):
        yield from _calls(value.left)
        yield from _calls(value.right)


def _place(statement: ast.stmt) -> tuple[int, int]:
    return statement.lineno, statement.col_offset
