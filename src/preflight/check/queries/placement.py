"""Placement: tensors that are made on the CPU and meet the tensors of a model that is on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from preflight.check.queries.tensors import graph, operand, operation, within_forward
from preflight.source.trace import parents_of
from preflight.source.values import Choice, Known, Obj, Seq, Unknown, Value, options_of, plain, settle

if TYPE_CHECKING:
    from preflight.check.context import Context

_FACTORIES = frozenset({
    "zeros", "ones", "randn", "rand", "arange", "eye", "full", "linspace", "randint", "randperm", "empty",
    "tensor", "FloatTensor", "LongTensor", "Tensor", "from_numpy", "logspace", "hann_window", "normal",
    "as_tensor",
})  # fmt: skip
_KEEPS = frozenset({
    "view", "reshape", "unsqueeze", "squeeze", "float", "double", "half", "long", "bool", "int", "expand",
    "repeat", "t", "transpose", "permute", "tril", "triu", "contiguous", "clone", "detach", "flatten", "exp",
    "sin", "cos", "sqrt", "neg", "pow", "**", "cpu", "requires_grad_", "[]", "log", "clamp", "normalize", "fill_",
    "zero_", "bernoulli", "cumsum", "flip",
})  # fmt: skip
_TYPES = frozenset(f"torch.{t}" for t in ("float32", "float16", "bfloat16", "float64", "long", "int64", "bool"))
_MOVES = frozenset({"cuda", "to", "type_as"})
_ARRAYS = frozenset(
    f"numpy.{n}" for n in ("concatenate", "stack", "linalg.inv", "zeros", "ones", "eye", "linspace", "arange")
)
# Sizes and numbers of a tensor lie on no device.
_LEAVES_DEVICE = frozenset({"cpu", "item", "numpy", "tolist", "size", "dim", "numel", "stride", "nelement"})
_PLAIN_CALLS = frozenset({"builtins.len", "builtins.int", "builtins.float", "builtins.range", "builtins.max"})
_PLAIN = frozenset({"shape", "ndim", "device", "dtype"})
_MEETING = (
    "+", "-", "*", "/", "@", "matmul", "bmm", "mm", "add", "sub", "mul", "div", "cat", "where", "masked_fill", "baddbmm",
)  # fmt: skip
_WITH_PARAMETERS = (
    "nn.Linear", "nn.Conv", "nn.Embedding", "nn.LSTM", "nn.GRU", "nn.LayerNorm", "nn.BatchNorm", "nn.Bilinear",
)  # fmt: skip
_DEFAULTS = ("torch.set_default_device", "torch.set_default_tensor_type", "torch.cuda.device")


def made_at(value: Value | None) -> tuple[Obj, str] | None:
    """The factory call behind a tensor, and where it lies: ``cpu``, or ``moved`` when it was sent somewhere on the way."""
    place, picked = "cpu", 0
    for _ in range(24):
        value = settle(value) if value is not None else None
        if not isinstance(value, Obj):
            return None
        name = operation(value) or ""
        if name == "[]" and value.args:
            key = settle(value.args[0])
            picked += sum(
                _is_place(one) for one in (key.items if isinstance(key, Seq) and key.kind == "tuple" else (key,))
            )
        if name in _FACTORIES and value.name.startswith("torch."):
            if picked and _dimensions(value, name) <= picked:
                return None  # one number of it, which may meet tensors of a GPU
            return (
                (value, place)
                if _many(value, name) and not {"device", "out"} & value.kwargs.keys() and not value.open_args
                else None  # out= is a tensor that is there already, on its own device
            )
        if name in _MOVES:
            place = "moved"
            if name == "to" and value.args and _is_type(value.args[0]) and len(value.args) == 1 and not value.kwargs:
                place = "cpu"
        elif name in ("*", "+", "-", "/") and len(value.args) == 2:
            scalar = [isinstance(settle(a), Known) for a in value.args]
            if not any(scalar):
                return None
            value = value.args[1 if scalar[0] else 0]
            continue
        elif name not in _KEEPS:
            return None
        value = operand(value)
    return None


def _is_type(value: Value) -> bool:
    return getattr(settle(value), "name", "") in _TYPES


def _is_place(key: Value) -> bool:
    """Whether a key is one number of Python: ``0``, or what a loop counts up."""
    key = settle(key)
    if isinstance(key, Unknown) and key.initial is not None and key.reason.startswith("changes "):
        key = settle(key.initial)
    return isinstance(key, Known) and type(key.value) is int


def _dimensions(obj: Obj, name: str) -> int:
    """How many dimensions a factory's tensor has at least, as far as it is written out."""
    first = settle(obj.args[0]) if obj.args else None
    if name in ("tensor", "as_tensor", "FloatTensor", "LongTensor", "Tensor") and isinstance(first, Seq):
        depth = 1
        while isinstance(first, Seq) and first.items:
            first = settle(first.items[0])
            depth += isinstance(first, Seq)
        return depth
    if name in ("zeros", "ones", "rand", "randn", "empty", "full"):
        return len(first.items) if isinstance(first, Seq) else 1 if name == "full" else max(1, len(obj.args))
    return 2 if name == "eye" else 1


def _many(obj: Obj, name: str) -> bool:
    """Whether it is more than one number: tensors without a dimension may meet those of a GPU."""
    if name in ("tensor", "as_tensor", "from_numpy"):
        first = settle(obj.args[0]) if obj.args else None
        return isinstance(first, Seq) or name == "from_numpy" or getattr(first, "name", "") in _ARRAYS
    return bool(obj.args or obj.kwargs)


def meetings(context: Context) -> Iterator[tuple[Obj, Obj, str]]:
    """Operations in a ``forward`` in which a tensor made by a factory meets one that depends on parameters.

    Yields:
        The operation, the factory call, and ``cpu`` or ``moved``.
    """
    if context.trace.calls(*_DEFAULTS) or _under_device(context):
        return
    for value in graph(context).made(*_MEETING):
        if not within_forward(value.context):
            continue
        parts = list(value.args)
        if value.kind == "call" and value.name.startswith(".") and value.receiver is not None:
            parts.append(value.receiver)
        if parts and isinstance(settle(parts[0]), Seq) and operation(value) == "cat":
            parts = list(settle(parts[0]).items)  # type: ignore[attr-defined]
        for part in parts:
            found = made_at(part)
            if found is not None and any(_on_model_device(other) for other in parts if other is not part):
                yield value, found[0], found[1]


def looked_up(context: Context) -> Iterator[tuple[Obj, Obj, str]]:
    """Look-ups in a ``forward`` of rows of an embedding by indices that a factory made; as ``meetings`` has them."""
    if context.trace.calls(*_DEFAULTS) or _under_device(context):
        return
    for value in graph(context).made("nn.Embedding", "embedding"):
        found = made_at(value.args[0]) if value.args and within_forward(value.context) else None
        if found is not None:
            yield value, found[0], found[1]


def _under_device(context: Context) -> bool:
    """Whether a ``with torch.device(...)`` makes tensors elsewhere."""
    entered = (settle(w) for e in context.trace.calls("()") for w in e.context.withs())
    return any(isinstance(w, Obj) and w.name == "torch.device" for w in entered)


def _on_model_device(value: Value) -> bool:
    """Whether a value was computed with the parameters of a layer."""
    queue, seen = [value], {id(value)}
    for part in queue:  # grows while it is gone through
        if isinstance(part, Obj):
            name = operation(part) or ""
            if name.startswith(_WITH_PARAMETERS):
                return True
            if name in _LEAVES_DEVICE or part.name in _PLAIN_CALLS or (part.kind == "attr" and part.name in _PLAIN):
                continue
            if name in _FACTORIES and part.name.startswith("torch."):
                continue  # its arguments say how large it is, not where
        for parent in parents_of(part) if len(queue) < 80 else ():
            if id(parent) not in seen:
                seen.add(id(parent))
                queue.append(parent)
    return False


def model_on_gpu(context: Context) -> bool:
    """Whether the script sends a model to a GPU."""
    for event in context.trace.calls(".cuda", ".to"):
        if not any(context.roles.of(o) == "model" for o in options_of(event.receiver, limit=2)) or event.context.shadow:
            continue
        if event.name == ".cuda" or gpu_device(event.argument(0, "device")):
            return True
    return False


def gpu_device(value: Value | None) -> bool:
    """Whether a device is a GPU: ``"cuda"``, ``torch.device("cuda:0")``, a number."""
    settled = settle(value) if value is not None else None
    if isinstance(settled, Obj) and settled.name == "torch.device":
        return gpu_device(settled.argument(0, "type"))
    if isinstance(settled, Choice):
        return any(gpu_device(o) for o in settled.options)
    found = plain(settled)
    return (isinstance(found, str) and found.startswith("cuda")) or (
        isinstance(found, int) and not isinstance(found, bool)
    )
