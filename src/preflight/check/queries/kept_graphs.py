"""Graphs that stay alive: which values hold the graph of a network's forward pass, and where gradients are recorded."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from preflight.check.queries.backward_graph import grad_mode
from preflight.source.evaluate.library.methods import is_module
from preflight.source.trace import ITEMS, provenance
from preflight.source.trace import Context as Frame
from preflight.source.values import Class, Func, Known, Obj, Seq, Value, options_of, settle

if TYPE_CHECKING:
    from preflight.check.context import Context
    from preflight.source.training import TrainingLoop

# Methods whose result carries the graph of their receiver.
_KEEPS = (
    r"^\.(to|cuda|cpu|float|half|double|bfloat16|type|type_as|clone|contiguous|mean|sum|prod|std|var|norm|view|view_as|reshape"
    r"|flatten|unflatten|squeeze|unsqueeze|transpose|permute|t|expand|expand_as|repeat|exp|log|log2|log10|log1p|sqrt|rsqrt"
    r"|square|pow|abs|neg|add|sub|mul|div|add_|sub_|mul_|div_|addcmul_|addcdiv_|lerp|lerp_|matmul|mm|bmm|softmax"
    r"|log_softmax|sigmoid|tanh|relu|clamp|clip|clamp_min|clamp_max|gather|index_select|masked_select|masked_fill"
    r"|masked_fill_|split|chunk|unbind|narrow|select|max|min|topk|sort|median|logsumexp|cumsum|nan_to_num|diagonal|trace"
    r"|log_prob|entropy|rsample|roll|flip)$"
)
# Functions of torch whose result carries no graph.
_ENDS = (
    r"^torch\.(tensor|as_tensor|from_numpy|argmax|argmin|argsort|zeros\w*|ones\w*|empty\w*|full\w*|rand\w*|arange|eye"
    r"|linspace|eq|ne|ge|gt|le|lt|sign|isnan|isinf|isfinite|logical_\w+|bincount|unique|multinomial|bernoulli|histc|round"
    r"|floor|ceil|allclose|equal|load|no_grad|inference_mode|numel|is_\w+|get_\w+"
    r"|(cuda|distributed|utils|autograd|optim|jit)\.\S+)$"
)
_CUTS = frozenset((".item", ".detach", ".tolist", ".numpy"))
PLAIN_ATTRIBUTES = frozenset(
    ("data", "grad", "shape", "dtype", "device", "requires_grad", "ndim", "is_cuda", "layout", "is_leaf", "names")
)
_ARITHMETIC = frozenset({"+", "-", "*", "/", "**", "@", "neg"})
_NO_PARAMETERS = (
    r"^torch\.nn\.(ReLU\w*|GELU|SiLU|Tanh|Sigmoid|Softmax\w*|LogSoftmax|Dropout\w*|MaxPool\w*|AvgPool\w*|Adaptive\w+Pool\w*"
    r"|Flatten|Unflatten|Identity|Upsample\w*|PixelShuffle|ZeroPad\w*|\w+Pad\d\w*|LeakyReLU|ELU|Hard\w+|Softplus"
    r"|CosineSimilarity|\w*Loss)$"
)
_EVALUATION_HOOKS = r"\.(validation|test|predict)_(step|epoch_end)$|\.on_(validation|test|predict)_\w+$"


def recorded(frame: Frame) -> bool | None:
    """Whether gradients are recorded at a place; None where a value decides that is not known."""
    for outer in frame.frames():
        if isinstance(outer.value, Func) and evaluated_by_framework(outer.value):
            return False
    return grad_mode(frame)


def evaluated_by_framework(func: Func) -> bool:
    """Lightning turns gradients off around its validation, test and prediction hooks."""
    owner = func.owner
    if owner is None or not re.search(_EVALUATION_HOOKS, func.qualname):
        return False
    return any(name.startswith("lightning.") for name in owner.external_bases())


def switched_globally(context: Context) -> bool:
    """Whether the script turns gradients on or off by a call of its own, outside any block."""
    switches = context.trace.calls("torch.set_grad_enabled")
    for event in switches:
        statement = context.statement(event.script, event.node)
        if isinstance(statement, ast.Expr) and statement.value is event.node:
            return True
    return False


def graph_of(context: Context, value: Value | None, limit: int = 300) -> Obj | None:
    """The call of a network (or the loss that is differentiated) whose graph a value carries, or None where none was seen.

    Only operations that are known to keep the graph are followed: what cannot be known counts as carrying none.
    """
    stack: list[Value] = [value] if value is not None else []
    seen: set[int] = set()
    while stack and limit > 0:
        options = list(options_of(stack.pop()))
        # ``if isinstance(x, Tensor): x = x.item()``: what is left as it was carries no graph.
        cut = {id(r) for o in options if isinstance(o, Obj) and o.name in _CUTS for r in options_of(o.receiver)}
        for option in options:
            if id(option) in seen or id(option) in cut:
                continue
            seen.add(id(option))
            limit -= 1
            if isinstance(option, Seq):
                stack.extend(option.items[:8])
            elif isinstance(option, Obj):
                if is_forward(context, option) or id(option) in _differentiated(context):
                    return option
                stack.extend(_carried(option))
    return None


def _differentiated(context: Context) -> set[int]:
    """Identities of the losses of which gradients are computed: they carry a graph, whoever made the network."""
    found: set[int] | None = context.__dict__.get("_differentiated")
    if found is None:
        losses = [loss for loop in context.reading.loops for loss in loop.losses()]
        found = context.__dict__["_differentiated"] = {id(o) for loss in losses for o in options_of(loss, limit=4)}
    return found


def is_forward(context: Context, value: Obj) -> bool:
    """Whether a value is what a network with parameters returned where gradients are recorded."""
    if value.name != "()" or value.receiver is None or not is_module(value.receiver):
        return False
    base = settle(value.receiver)
    if isinstance(base, Obj) and base.cls is None and re.match(_NO_PARAMETERS, base.name):
        return False
    if context.roles.of(value.receiver) == "criterion":
        return False
    return value.context is None or recorded(value.context) is True


def _carried(value: Obj) -> Iterator[Value]:
    """The values whose graph a value carries on."""
    if ITEMS in value.attrs:
        yield value.attrs[ITEMS]  # outputs[t] = x
    if value.context is not None and recorded(value.context) is not True:
        return
    if value.kind == "op":
        if value.name in _ARITHMETIC:
            yield from value.args
    elif value.kind == "item":
        if value.receiver is not None and not _is_position(value):
            yield value.receiver
    elif value.kind == "attr":
        if value.name not in PLAIN_ATTRIBUTES and value.receiver is not None and not is_module(value.receiver):
            yield value.receiver
    elif value.name == "()":
        if value.receiver is not None and is_module(value.receiver):
            yield from value.args  # a criterion, or a layer without parameters
    elif value.name == ".apply" and isinstance(value.receiver, Class):
        if any(name.startswith("torch.autograd.Function") for name in value.receiver.external_bases()):
            yield from value.args
    elif value.name.startswith("."):
        if re.match(_KEEPS, value.name) and value.receiver is not None:
            yield value.receiver
            yield from value.args
    elif value.name.startswith(("torch.", "horovod.torch.all")) and not re.match(_ENDS, value.name):
        yield from value.args
        yield from value.kwargs.values()


def _is_position(value: Obj) -> bool:
    """Whether this is the second part of ``max(dim)``, ``topk`` and their kin: positions, which have no gradient."""
    base = settle(value.receiver) if value.receiver is not None else None
    key = settle(value.args[0]) if value.args else None
    names = (".max", ".min", ".topk", ".sort", ".median", "torch.max", "torch.min", "torch.topk", "torch.sort")
    return isinstance(base, Obj) and base.name in names and isinstance(key, Known) and key.value == 1


def used_in_losses(context: Context) -> set[int]:
    """Identities of all values that some loss is computed from."""
    found: set[int] | None = context.__dict__.get("_used_in_losses")
    if found is None:
        found = set()
        names = (".backward", ".manual_backward", "torch.autograd.backward", "torch.autograd.grad")
        for event in context.trace.calls(*names):
            for value in (event.receiver, *event.args, *event.kwargs.values()):
                found.update(id(part) for part in provenance(value, _FAR))
        context.__dict__["_used_in_losses"] = found
    return found


def detached_in_place(context: Context, value: Value | None) -> bool:
    """Whether ``detach_()`` is called on a value."""
    wanted = {id(o) for o in options_of(value)}
    return any(id(o) in wanted for e in context.trace.calls(".detach_") for o in options_of(e.receiver))


Fate = Literal["freed", "partly", "retained", "never"]
FATES: dict[Fate, str] = {
    "partly": "a backward pass keeps the graph (retain_graph), and another one frees only what both have in common",
    "retained": "backward keeps the graph (retain_graph)",
    "never": "no backward frees it",
}
"""Why a graph that something holds stays, whole or in part."""
_FAR = 3000


def fate_of_graph(context: Context, loop: TrainingLoop, value: Value, source: Obj) -> Fate:
    """Whether what a graph has saved is freed by a backward pass of the loop.

    Args:
        context: What is known of the script.
        loop: The training loop in which the value is made.
        value: What carries the graph.
        source: The forward pass that the graph is of.
    """
    own = {id(option) for option in options_of(value)}
    passes = {id(part) for part in provenance(value, _FAR) if isinstance(part, Obj) and is_forward(context, part)}
    freed = retained = False
    for event in loop.backwards:
        parts = [part for given in (event.receiver, *event.args) for part in provenance(given, _FAR)]
        behind = {id(part) for part in parts}
        keeps = any(context.value(event.kwargs.get(name)) is True for name in ("retain_graph", "create_graph"))
        if not keeps and own & behind:
            return "freed"
        reached = id(source) in behind or bool(own & behind)
        retained = retained or (keeps and reached)
        # What was not followed to its beginning may reach it.
        freed = freed or (not keeps and (reached or bool(passes & behind) or len(parts) >= _FAR))
    if retained:
        return "partly" if freed else "retained"
    return "freed" if freed else "never"
