"""Tensors: what operation made a value, whether gradients flow through it, and all operations of a script.

A function, a method and a module that do the same have one name here: ``F.softmax(x, dim=1)``, ``x.softmax(1)``,
``torch.softmax(x, 1)`` and ``nn.Softmax(1)(x)`` are all ``softmax``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from preflight.source.trace import Context as Frame
from preflight.source.trace import parents_of
from preflight.source.values import Choice, Func, Obj, Phi, Value, plain, settle

if TYPE_CHECKING:
    from preflight.check.context import Context
    from preflight.vocabulary.finding import Edit

# Modules without parameters that do what a function does.
_FUNCTIONAL = {
    "Softmax": "softmax", "LogSoftmax": "log_softmax", "Softmax2d": "softmax2d", "Sigmoid": "sigmoid",
    "LogSigmoid": "logsigmoid", "Tanh": "tanh", "ReLU": "relu", "ReLU6": "relu6", "LeakyReLU": "leaky_relu",
    "GELU": "gelu", "SiLU": "silu", "ELU": "elu", "Softplus": "softplus", "Hardtanh": "hardtanh", "Mish": "mish",
    "SELU": "selu", "CELU": "celu", "PReLU": "prelu", "Flatten": "nn.Flatten", "Dropout": "dropout",
    "Dropout1d": "dropout1d", "Dropout2d": "dropout2d", "Dropout3d": "dropout3d", "Identity": "identity",
}  # fmt: skip
_METHOD_NAMES = {"true_divide": "div", "expit": "sigmoid", "divide": "div", "multiply": "mul"}
# The same numbers in another arrangement, type or place.
VIEWS = frozenset({
    "view", "reshape", "squeeze", "unsqueeze", "contiguous", "permute", "transpose", "movedim", "flatten",
    "nn.Flatten", "unflatten", "float", "double", "half", "bfloat16", "to", "cuda", "cpu", "type", "type_as",
    "clone", "expand", "expand_as", "repeat", "t", "swapaxes", "identity", "view_as", "reshape_as",
})  # fmt: skip
ELEMENTWISE = frozenset({
    "relu", "relu6", "leaky_relu", "gelu", "silu", "elu", "selu", "celu", "mish", "prelu", "softplus", "hardtanh",
    "tanh", "sigmoid", "logsigmoid", "exp", "log", "sqrt", "abs", "clamp", "clip", "dropout", "softmax",
    "log_softmax", "identity", "clone", "contiguous", "float", "double", "half", "bfloat16", "to", "cuda", "cpu",
    "type", "type_as", "detach", "square", "neg", "nn.LayerNorm", "nn.RMSNorm", "nn.BatchNorm1d", "nn.BatchNorm2d",
    "nn.BatchNorm3d", "nn.GroupNorm", "nn.InstanceNorm2d", "normalize", "masked_fill", "dropout1d", "dropout2d",
    "dropout3d", "alpha_dropout", "log1p", "expm1", "rsqrt", "nan_to_num",
})  # fmt: skip
# What gradients do not pass.
CUTS = frozenset({
    "detach", "item", "tolist", "numpy", "argmax", "argmin", "size", "numel", "dim", "eq", "ne", "lt", "le", "gt",
    "ge", "isnan", "isinf", "long", "int", "bool", "multinomial",
})  # fmt: skip
_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">=", "~", "not", "and", "or"})


def module_of(obj: Obj) -> Obj | None:
    """The module that was called, when a value is what calling one returned."""
    if obj.kind == "call" and obj.name == "()" and obj.receiver is not None:
        inner = settle(obj.receiver)
        return inner if isinstance(inner, Obj) else None
    return None


def operation(value: Value | None) -> str | None:
    """The name of the operation that made a value; None for what is not an operation on tensors."""
    if not isinstance(value, Obj):
        return None
    if value.kind == "op":
        return value.name
    if value.kind == "item":
        return "[]"
    if value.kind == "attr":
        return value.name if value.name in ("data", "T", "mT", "real", "grad") else None
    if value.kind != "call":
        return None
    name = value.name
    if name == "()":
        module = module_of(value)
        if module is None or module.cls is not None or not module.name.startswith("torch.nn."):
            return f"model:{module.name}" if module is not None and module.cls is None else None
        tail = module.name[len("torch.nn.") :]
        return _FUNCTIONAL.get(tail, "nn." + tail)
    if name.startswith("torch.nn.functional."):
        tail = name[len("torch.nn.functional.") :]
    elif name.startswith("."):
        tail = name[1:]
    elif name.startswith("torch.Tensor."):
        tail = name[len("torch.Tensor.") :]
    elif name.startswith("torch.special."):
        tail = name[len("torch.special.") :]
    elif name.startswith(("torch.linalg.", "torch.fft.")) or (name.startswith("torch.") and name.count(".") == 1):
        tail = name[len("torch.") :]
    elif name == "einops.rearrange":
        return "permute"
    else:
        return None
    return _METHOD_NAMES.get(tail, tail)


def is_method(obj: Obj) -> bool:
    """Whether the operation was written as a method of its first operand."""
    return obj.kind == "call" and obj.name.startswith(".")


def operand(obj: Obj) -> Value | None:
    """What the operation was applied to."""
    if obj.kind in ("item", "attr") or is_method(obj):
        return obj.receiver
    if obj.kind == "op" or obj.name == "()":
        return obj.args[0] if obj.args else obj.kwargs.get("input")
    return obj.argument(0, "input") or obj.kwargs.get("tensor") or obj.kwargs.get("x")


def option(obj: Obj, position: int, keyword: str) -> Value | None:
    """An option of an operation; ``position`` counts the options after the operand, from 0.

    Of a module it is what the module was made with.
    """
    module = module_of(obj)
    if module is not None:
        return module.argument(position, keyword)
    return obj.argument(position if is_method(obj) else position + 1, keyword)


def second(obj: Obj) -> Value | None:
    """What stands on the other side of an operation of two tensors: an operator, a method or a function."""
    return obj.args[1] if obj.kind == "op" and len(obj.args) == 2 else option(obj, 0, "other")


def literal_edit(context: Context, value: Value | None, old: str, new: str) -> Edit | None:
    """Put another literal in the place of one; None where the value does not stand there as it is, as with an option."""
    settled = settle(value) if value is not None else None
    if settled is None or settled.site is None or settled.site.script.segment(settled.site.node) != old:
        return None
    return context.replace(settled, new)


def origin(
    value: Value | None, through: frozenset[str] = VIEWS, items: bool = False, strict: bool = False
) -> Obj | None:
    """The operation that made a value, seen through operations that only rearrange.

    Where a branch that nothing decides may have made it in several ways, all have to agree on the operation.

    Args:
        value: Where to start.
        through: Operations to see through.
        items: Whether to see through indexing.
        strict: Whether options that the defaults do not lead to have to agree too.
    """
    for _ in range(64):
        if value is None:
            return None
        if isinstance(value, Phi):
            value = value.initial
            continue
        if isinstance(value, Choice):
            if value.preferred is not None and not strict:
                value = value.options[value.preferred]
                continue
            found = [origin(o, through, items, strict) for o in value.options]
            names = {operation(f) for f in found}
            return found[0] if found and len(names) == 1 and None not in names else None
        if not isinstance(value, Obj):
            return None
        name = operation(value)
        if name in through or (items and name == "[]") or (name in ("T", "mT")):
            value = operand(value)
            continue
        return value
    return None


def grad_off(frame: Frame | None) -> bool:
    """Whether gradients are not recorded at a place."""
    if frame is None:
        return False
    for entered in frame.withs():
        entered = settle(entered)
        name = getattr(entered, "name", "")
        if name == "torch.enable_grad":
            return False
        if name in ("torch.no_grad", "torch.inference_mode"):
            return not (isinstance(entered, Obj) and plain(entered.argument(0, "mode"), True) is False)
        if name == "torch.set_grad_enabled" and isinstance(entered, Obj):
            return plain(entered.argument(0, "mode"), True) is False
    return False


def inside_forward(frame: Frame | None) -> Func | None:
    """The ``forward`` of a module of the project that a place is in, when the innermost function is one."""
    if frame is None:
        return None
    for inner in frame.frames():
        if inner.kind == "call" and isinstance(inner.value, Func):
            func = inner.value
            if func.owner is not None and func.qualname.endswith(".forward"):
                return func
            return None
    return None


def within_forward(frame: Frame | None) -> bool:
    """Whether a place is in the ``forward`` of a module, directly or in what it calls."""
    called = [f.value for f in frame.frames() if f.kind == "call"] if frame is not None else []
    return any(isinstance(f, Func) and f.owner is not None and f.qualname.endswith(".forward") for f in called)


class Graph:
    """All values that a script was seen to make, by operation; and those that gradients flow through."""

    def __init__(self, context: Context) -> None:
        """Walk everything that calls were given and returned."""
        self.values: dict[int, Obj] = {}
        self.by_operation: dict[str, list[Obj]] = {}
        self._context = context
        self._gradient: set[int] | None = None
        trace = context.trace
        stack: list[Value] = [s.value for s in trace.stores]
        for event in trace.events:
            stack.extend(event.args)
            stack.extend(event.kwargs.values())
            stack.extend(v for v in (event.receiver, event.result) if v is not None)
        seen: set[int] = set()
        while stack:
            value = stack.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, Obj):
                self.values[id(value)] = value
            stack.extend(p for p in parents_of(value) if id(p) not in seen)
        for obj in sorted(self.values.values(), key=lambda o: o.number):
            name = operation(obj)
            if name is not None:
                self.by_operation.setdefault(name, []).append(obj)

    def made(self, *operations: str) -> Iterator[Obj]:
        """Values that one of the operations made."""
        for name in operations:
            yield from self.by_operation.get(name, ())

    @property
    def gradient(self) -> set[int]:
        """Ids of the values that a training loss was computed from, with gradients flowing through."""
        if self._gradient is None:
            self._gradient = _flowing(training_losses(self._context))
        return self._gradient

    def trains(self, value: Value) -> bool:
        """Whether gradients of a training loss flow through a value."""
        return id(value) in self.gradient


def _flowing(losses: list[Value]) -> set[int]:
    seen: set[int] = set()
    stack = list(losses)
    while stack:
        value = stack.pop()
        if id(value) in seen:
            continue
        if isinstance(value, Obj):
            name = operation(value)
            if name in CUTS or name in _COMPARISONS or name == "data" or grad_off(value.context):
                continue
        seen.add(id(value))
        if isinstance(value, Obj) and value.kind == "item" and value.receiver is not None:
            stack.append(value.receiver)  # the index carries no gradient
        elif isinstance(value, Obj) and module_of(value) is not None:
            stack.extend(value.args)
            stack.extend(value.kwargs.values())
        else:
            stack.extend(parents_of(value))
    return seen


def training_losses(context: Context) -> list[Value]:
    """The values whose gradients train: in loops, and what ``training_step`` and ``compute_loss`` return."""
    found = [loss for loop in context.reading.loops for loss in loop.losses()]
    for name, events in context.trace.by_name.items():
        if name.endswith((".training_step", ".compute_loss")):
            found.extend(e.result for e in events if e.result is not None and e.inlined)
    return found


def graph(context: Context) -> Graph:
    """The graph of a context, built once."""
    held = context.__dict__.get("_graph")
    if not isinstance(held, Graph):
        held = context.__dict__["_graph"] = Graph(context)
    return held


def small_constant(value: Value | None) -> float | None:
    """A small positive constant such as is added for numerical stability, or None."""
    number = plain(value)
    if isinstance(number, (int, float)) and not isinstance(number, bool) and 0 < abs(number) <= 1e-2:
        return float(number)
    return None


def source_text(context: Context, value: Value, limit: int = 60) -> str:
    """How a value is written in the source, shortened."""
    if value.site is None:
        return "the value"
    text = value.site.script.segment(value.site.node)
    return text if len(text) <= limit else text[: limit - 3] + "..."
