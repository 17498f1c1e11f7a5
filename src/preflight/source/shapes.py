"""Sizes of what a convolutional network keeps for its backward pass, followed along the calls of its forward.

Only what is certain is followed: layers of the library with known arguments, and functions that keep or plainly
change a shape. Where the chain breaks, nothing is said: a dry run would tell.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from preflight.source.trace import Event
from preflight.source.values import Known, Obj, Seq, Value, plain, settle

if TYPE_CHECKING:
    from preflight.source.reading import Reading

Shape = tuple[int, ...]  # without the batch: (channels, height, width) or (features,)


class Flow:
    """Shapes and saved elements of one forward of a model.

    Attributes:
        saved: Elements kept for the backward pass, for one sample, or None where the chain broke.
        reason: Where it broke.
        largest: Elements of the largest single result.
    """

    def __init__(self, reading: Reading, model: Obj, shape: Shape) -> None:
        """Follow the first call of the model that a training loop makes."""
        self.saved: float | None = None
        self.reason: str | None = None
        self.largest = 0
        self._passes = 1
        self._shapes: dict[int, Shape] = {}
        self._kept: dict[int, float] = {}
        begin = _forward_of(reading, model)
        if begin is None:
            self.reason = "no call of the model in a training loop"
            return
        result = begin.result
        entry = begin.args[0] if begin.args else None
        if entry is None:
            self.reason = "the model's input is not its first argument"
            return
        self._input(entry, shape)
        last = _last_number(reading, begin)
        for event in reading.trace.events:
            if begin.number < event.number <= last and not event.inlined:
                self._passes = math.prod(f.passes for f in event.context.frames())
                self._event(event)
        end = settle(result) if result is not None else None
        if end is None or self.shape(end) is None:
            self.reason = self.reason or "the shape of the model's output could not be followed"
            return
        self.saved = sum(self._kept.values())

    def _input(self, entry: Value, shape: Shape) -> None:
        for value in (entry, settle(entry)):
            self._shapes[id(value)] = shape
        self._kept[id(settle(entry))] = float(math.prod(shape))

    def shape(self, value: Value | None) -> Shape | None:
        """The shape of a value, without the batch."""
        if value is None:
            return None
        found = self._shapes.get(id(value)) or self._shapes.get(id(settle(value)))
        if found is None:
            found = self._derived(settle(value), 0)
        return found

    def _derived(self, value: Value, depth: int) -> Shape | None:
        """Shapes of operators, which are values without an event."""
        if not isinstance(value, Obj) or value.kind != "op" or depth > 40 or value.name not in ("+", "-", "*", "/"):
            return None
        for arg in value.args:
            found = self.shape(arg)
            if found is not None:
                self._put(value, found, keep=value.name in ("*", "/"))
                return found
        return None

    def _put(self, value: Value | None, shape: Shape, keep: bool) -> None:
        if value is None:
            return
        self._shapes[id(value)] = shape
        size = math.prod(shape)
        self.largest = max(self.largest, size)
        if keep:
            self._kept[id(value)] = float(size) * self._passes

    def _event(self, event: Event) -> None:
        name = event.name
        if name == "()":
            layer = settle(event.receiver) if event.receiver is not None else None
            while isinstance(layer, Obj) and layer.kind == "copy":
                layer = layer.receiver
            if not isinstance(layer, Obj) or layer.cls is not None or not event.args:
                return
            into = self.shape(event.args[0])
            if into is None:
                return
            out = layer_shape(layer, into)
            if out is not None:
                self._put(event.result, out, keep=_keeps(layer))
            return
        source = event.receiver if name.startswith(".") else (event.args[0] if event.args else None)
        into = self.shape(source)
        if name in ("torch.cat", "torch.concat") and event.args:
            self._cat(event)
        elif into is not None:
            out = function_shape(event, into)
            if out is not None:
                self._put(event.result, out, keep=name.rpartition(".")[2] in _SAVING)

    def _cat(self, event: Event) -> None:
        parts = settle(event.args[0])
        shapes = [self.shape(p) for p in parts.items] if isinstance(parts, Seq) and not parts.open else []
        dim = plain(event.argument(1, "dim"), 0)
        if shapes and all(s is not None for s in shapes) and dim in (1, -3):
            first = shapes[0]
            assert first is not None
            self._put(event.result, (sum(s[0] for s in shapes if s is not None), *first[1:]), keep=True)


_SAVING = frozenset(
    "relu leaky_relu silu gelu elu sigmoid tanh softmax log_softmax max_pool2d batch_norm layer_norm mul hardswish relu6".split()
)


def _forward_of(reading: Reading, model: Obj) -> Event | None:
    for loop in reading.loops:
        for event in loop.events:
            if event.name == "()" and event.receiver is not None and settle(event.receiver) is model:
                return event
    return next((e for e in reading.trace.calls("()") if e.receiver is not None and settle(e.receiver) is model), None)


def _last_number(reading: Reading, begin: Event) -> int:
    """The number of the last event inside a call."""
    last = begin.number
    depth = begin.context.depth
    for event in reading.trace.events:
        if event.number <= begin.number:
            continue
        inside = event.context.depth > depth and any(f is begin.context for f in event.context.frames())
        call = (
            next((f for f in event.context.frames() if f.kind == "call" and f.node is begin.node), None)
            if inside
            else None
        )
        if call is None and event.number > begin.number + 1 and event.node is not begin.node:
            break
        last = event.number
    return last


def _keeps(layer: Obj) -> bool:
    """Whether autograd keeps the layer's result or input: not for additions of a constant, means, reshapes, identity."""
    name = layer.name.rpartition(".")[2]
    return not name.startswith(
        ("Flatten", "Identity", "AvgPool", "AdaptiveAvgPool", "Upsample", "ZeroPad", "Unflatten")
    ) and not (
        name in ("ReLU", "LeakyReLU", "ReLU6", "Hardtanh", "Dropout", "Dropout2d")
        and plain(
            layer.kwargs.get("inplace"), bool(plain(layer.argument(0 if "ReLU" in name else 1, "inplace"), False))
        )
        is True
    )


def _pair(value: Value | None, default: int | None) -> tuple[int, int] | None:
    if value is None:
        return (default, default) if default is not None else None
    found = plain(value)
    if isinstance(found, int) and not isinstance(found, bool):
        return found, found
    if isinstance(found, (list, tuple)) and len(found) == 2 and all(isinstance(f, int) for f in found):
        return found[0], found[1]
    return None


def _window(size: int, kernel: int, stride: int, padding: int, dilation: int = 1, ceil: bool = False) -> int:
    """Positions of a sliding window: floor((size + 2 padding - dilation (kernel - 1) - 1) / stride) + 1."""
    span = size + 2 * padding - dilation * (kernel - 1) - 1
    return (-(-span // stride) if ceil else span // stride) + 1


def layer_shape(layer: Obj, into: Shape) -> Shape | None:
    """The shape that a layer makes of another, without the batch."""
    name = layer.name.rpartition(".")[2]
    if name in ("Linear",):
        out = plain(layer.argument(1, "out_features"))
        return (*into[:-1], out) if isinstance(out, int) else None
    if name == "Flatten":
        return (math.prod(into),)
    if name == "Conv2d" and len(into) == 3:
        return _conv(layer, into)
    if name == "ConvTranspose2d" and len(into) == 3:
        return _transposed(layer, into)
    if name in ("MaxPool2d", "AvgPool2d") and len(into) == 3:
        kernel = _pair(layer.argument(0, "kernel_size"), None)
        stride = _pair(layer.argument(1, "stride"), None) or kernel
        padding = _pair(layer.argument(2, "padding"), 0)
        return _pooled(into, kernel, stride, padding, bool(plain(layer.kwargs.get("ceil_mode"), False)))
    if name.startswith("Adaptive") and len(into) == 3:
        size = _pair(layer.argument(0, "output_size"), None)
        return (into[0], *size) if size else None
    if name in ("Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d") and len(into) == 3:
        factor = plain(layer.argument(1, "scale_factor"))
        return (into[0], int(into[1] * factor), int(into[2] * factor)) if isinstance(factor, (int, float)) else None
    same = (
        "Norm",
        "ReLU",
        "GELU",
        "SiLU",
        "Sigmoid",
        "Tanh",
        "Dropout",
        "Identity",
        "ELU",
        "Softmax",
        "Mish",
        "Hardswish",
        "Hardtanh",
        "Softplus",
        "ReLU6",
    )
    return into if any(part in name for part in same) else None


def _conv(layer: Obj, into: Shape) -> Shape | None:
    out = plain(layer.argument(1, "out_channels"))
    kernel, stride = _pair(layer.argument(2, "kernel_size"), None), _pair(layer.argument(3, "stride"), 1)
    dilation = _pair(layer.argument(5, "dilation"), 1)
    given = layer.argument(4, "padding")
    padding = _pair(given, 0)
    if plain(given) == "same" and isinstance(out, int):
        return (out, into[1], into[2])
    if (
        not isinstance(out, int)
        or kernel is None
        or stride is None
        or padding is None
        or dilation is None
        or 0 in stride
    ):
        return None
    h, w = (_window(into[i + 1], kernel[i], stride[i], padding[i], dilation[i]) for i in (0, 1))
    return (out, h, w) if h > 0 and w > 0 else None


def _transposed(layer: Obj, into: Shape) -> Shape | None:
    out = plain(layer.argument(1, "out_channels"))
    kernel, stride = _pair(layer.argument(2, "kernel_size"), None), _pair(layer.argument(3, "stride"), 1)
    padding, extra = _pair(layer.argument(4, "padding"), 0), _pair(layer.argument(5, "output_padding"), 0)
    if not isinstance(out, int) or kernel is None or stride is None or padding is None or extra is None:
        return None
    h, w = ((into[i + 1] - 1) * stride[i] - 2 * padding[i] + kernel[i] + extra[i] for i in (0, 1))
    return (out, h, w) if h > 0 and w > 0 else None


def _pooled(
    into: Shape,
    kernel: tuple[int, int] | None,
    stride: tuple[int, int] | None,
    padding: tuple[int, int] | None,
    ceil: bool,
) -> Shape | None:
    if kernel is None or stride is None or padding is None or 0 in stride:
        return None
    h, w = (_window(into[i + 1], kernel[i], stride[i], padding[i], 1, ceil) for i in (0, 1))
    return (into[0], h, w) if h > 0 and w > 0 else None


def function_shape(event: Event, into: Shape) -> Shape | None:
    """The shape that a function or method makes of another, without the batch."""
    name = event.name.rpartition(".")[2]
    first = 0 if event.name.startswith(".") else 1
    if name in (
        "relu",
        "leaky_relu",
        "gelu",
        "silu",
        "sigmoid",
        "tanh",
        "dropout",
        "dropout2d",
        "elu",
        "softmax",
        "log_softmax",
        "contiguous",
        "to",
        "float",
        "half",
        "clone",
        "hardswish",
        "relu_",
        "relu6",
        "batch_norm",
    ):
        return into
    if name == "flatten":
        start = plain(event.argument(first, "start_dim"), 0)
        return (math.prod(into),) if start == 1 else None
    if name in ("view", "reshape"):
        target = [plain(a) for a in event.args[first:]]
        size = math.prod(into)
        if len(target) == 2 and (target[1] == -1 or target[1] == size):
            return (size,)
        return None
    if name in ("max_pool2d", "avg_pool2d") and len(into) == 3:
        kernel = _pair(event.argument(first, "kernel_size"), None)
        stride = _pair(event.argument(first + 1, "stride"), None) or kernel
        return _pooled(into, kernel, stride, _pair(event.argument(first + 2, "padding"), 0), False)
    if name == "adaptive_avg_pool2d" and len(into) == 3:
        sides = _pair(event.argument(first, "output_size"), None)
        return (into[0], *sides) if sides else None
    if (
        name in ("mean",)
        and len(into) == 3
        and plain(event.argument(first, "dim")) in ([2, 3], (2, 3), [-1, -2], (-2, -1), [-2, -1])
    ):
        return (into[0],)
    if name in ("squeeze",) and len(into) == 3 and into[1:] == (1, 1):
        return (into[0],)
    if name == "interpolate" and len(into) == 3:
        factor = plain(event.kwargs.get("scale_factor"))
        return (into[0], int(into[1] * factor), int(into[2] * factor)) if isinstance(factor, (int, float)) else None
    return None


__all__ = ["Flow", "Known", "function_shape", "layer_shape"]
