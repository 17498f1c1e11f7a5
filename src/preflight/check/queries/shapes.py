"""Shapes: the number of dimensions of a tensor and the size of its last one, where the operations tell."""

from __future__ import annotations

import re

from preflight.check.queries.tensors import ELEMENTWISE, module_of, operand, operation, option
from preflight.source.values import Choice, Known, Obj, Phi, Seq, Value, plain, settle

_POOLED = {"1d": 3, "2d": 4, "3d": 5}
_SPATIAL = r"^nn\.(Lazy)?(Conv|ConvTranspose|MaxPool|AvgPool|AdaptiveAvgPool|AdaptiveMaxPool|BatchNorm|InstanceNorm)(1d|2d|3d)$"
_FUNCTIONS = r"^(conv_transpose|conv|max_pool|avg_pool|adaptive_avg_pool|adaptive_max_pool)(1d|2d|3d)$"
_CLASSIFIER = (
    r"^torchvision\.models\.(?!detection|segmentation|video|optical_flow|feature_extraction|quantization)[a-z]\w*$"
)
_CREATED = frozenset({"randn", "rand", "zeros", "ones", "empty", "full", "randint"})
_SCALED = frozenset({"+", "-", "*", "/", "add", "sub", "mul", "div"})


def _sizes(obj: Obj) -> list[Value] | None:
    """The sizes given to ``view``, ``reshape`` or a factory; None where they are not all there."""
    if obj.open_args:
        return None
    args = list(obj.args)
    if obj.name in ("torch.reshape",):
        args = args[1:]
    if not args:
        given = obj.kwargs.get("size") or obj.kwargs.get("shape")
        args = [given] if given is not None else []
    if len(args) == 1:
        only = settle(args[0])
        if isinstance(only, Seq):
            return None if only.open else list(only.items)
        if not isinstance(only, Known):
            return None  # view(dtype), view(other.shape)
    return args or None


def rank(value: Value | None, depth: int = 0) -> int | None:
    """Number of dimensions of a tensor; None where it is not known."""
    if value is None or depth > 40:
        return None
    value = settle(value)
    if isinstance(value, Choice):
        found = {rank(o, depth + 1) for o in value.options}
        return found.pop() if len(found) == 1 else None
    if isinstance(value, Phi):
        return rank(value.initial, depth + 1)
    if not isinstance(value, Obj):
        return None
    name = operation(value)
    if name is None:
        return None
    inner = operand(value)
    match = re.match(_SPATIAL, name) or re.match(_FUNCTIONS, name)
    if match is not None and name != "nn.BatchNorm1d":
        return _POOLED[match.groups()[-1]]
    if name in ELEMENTWISE or name == "nn.Linear" or name == "linear":
        return rank(inner, depth + 1)
    if name in ("view", "reshape"):
        sizes = _sizes(value)
        return len(sizes) if sizes is not None else None
    if name in _CREATED and not value.name.startswith("."):
        return _created(value, name)
    if name in ("flatten", "nn.Flatten"):
        return _flat(value, name, rank(inner, depth + 1))
    if name in ("unsqueeze", "nn.Embedding", "embedding"):
        base = rank(inner, depth + 1)
        return base + 1 if base is not None else None
    if name in ("mean", "sum", "amax", "amin", "norm", "std", "var", "argmax"):
        return _reduced(value, rank(inner, depth + 1))
    if name in _SCALED and value.args:
        return _combined(value, depth)
    if name == "[]":
        return _indexed(value, depth)
    if name.startswith("model:"):
        return 2 if re.match(_CLASSIFIER, name[6:]) or re.match(r"torch_geometric\.nn\.\w*Conv$", name[6:]) else None
    return None


def _created(obj: Obj, name: str) -> int | None:
    if name == "full":
        given = settle(obj.argument(0, "size") or Known(None))
        return len(given.items) if isinstance(given, Seq) and not given.open else None
    if name == "randint":
        sizes = [s for s in map(settle, (*obj.args, *obj.kwargs.values())) if isinstance(s, Seq)]
        return len(sizes[0].items) if sizes and not sizes[0].open else None
    given_sizes = _sizes(obj)
    return len(given_sizes) if given_sizes is not None else None


def _flat(obj: Obj, name: str, base: int | None) -> int | None:
    module = name == "nn.Flatten"
    start_given = option(obj, 0, "start_dim")
    start = plain(start_given) if start_given is not None else int(module)
    end = option(obj, 1, "end_dim")
    if end is not None and plain(end) != -1:
        return None
    if not isinstance(start, int):
        return None
    if start >= 0:
        return start + 1
    return base + start + 1 if base is not None else None


def _reduced(obj: Obj, base: int | None) -> int | None:
    dim = option(obj, 0, "dim")
    if operation(obj) == "norm":
        dim = option(obj, 1, "dim")
    if dim is None:
        return 0
    axes = plain(dim)
    if base is None or axes is None:
        return None
    if plain(obj.kwargs.get("keepdim"), False):
        return base
    return base - (len(axes) if isinstance(axes, (list, tuple)) else 1)


def _combined(obj: Obj, depth: int) -> int | None:
    parts = [obj.receiver, *obj.args] if obj.kind == "call" and obj.name.startswith(".") else list(obj.args)
    found: list[int] = []
    for part in parts[:2]:
        if part is None:
            return None
        if isinstance(settle(part), Known):
            found.append(0)
            continue
        base = rank(part, depth + 1)
        if base is None:
            return None
        found.append(base)
    return max(found) if found else None


def _indexed(obj: Obj, depth: int) -> int | None:
    receiver = settle(obj.receiver) if obj.receiver is not None else None
    key = settle(obj.args[0]) if obj.args else None
    if isinstance(receiver, Obj):
        module = module_of(receiver)
        if (
            module is not None
            and module.cls is None
            and module.name in ("torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN")
        ):
            return 3 if isinstance(key, Known) and key.value == 0 else None
    base = rank(receiver, depth + 1) if receiver is not None else None
    if base is None:
        return None
    parts = [settle(k) for k in key.items] if isinstance(key, Seq) and key.kind == "tuple" else [key]
    for part in parts:
        if isinstance(part, Known) and isinstance(part.value, int) and not isinstance(part.value, bool):
            base -= 1
        elif isinstance(part, Known) and part.value is None:
            base += 1
        elif isinstance(part, Known) and part.value is Ellipsis:
            continue
        elif not (isinstance(part, Obj) and part.name == "slice"):
            return None
    return base


def width(value: Value | None, depth: int = 0) -> int | None:
    """Size of the last dimension of a tensor; None where it is not known."""
    if value is None or depth > 40:
        return None
    value = settle(value)
    if isinstance(value, Choice):
        found = {width(o, depth + 1) for o in value.options}
        return found.pop() if len(found) == 1 else None
    if isinstance(value, Phi):
        return width(value.initial, depth + 1)
    if not isinstance(value, Obj):
        return None
    name = operation(value)
    if name is None:
        return None
    if name == "nn.Linear":
        module = module_of(value)
        found_size = plain(module.argument(1, "out_features")) if module is not None else None
        return found_size if isinstance(found_size, int) else None
    if name in ELEMENTWISE and name not in ("nn.BatchNorm2d", "nn.BatchNorm3d"):
        return width(operand(value), depth + 1)
    if name in ("view", "reshape") or (
        name in _CREATED and name not in ("full", "randint") and not value.name.startswith(".")
    ):
        sizes = _sizes(value)
        last = plain(sizes[-1]) if sizes else None
        return last if isinstance(last, int) and last > 0 else None
    if name in _SCALED:
        operands = [value.receiver, *value.args] if value.kind == "call" and value.name.startswith(".") else value.args
        tensors = [part for part in operands[:2] if part is not None and not isinstance(settle(part), Known)]
        if len(tensors) == 1:
            return width(tensors[0], depth + 1)
        # Sizes are the same or one: a size above one decides, whatever the other operand has.
        each = [width(part, depth + 1) for part in tensors]
        return max((size for size in each if size is not None and size > 1), default=None)
    if name.startswith("model:") and re.match(_CLASSIFIER, name[6:]):
        return _classes_of(value)
    return None


def _classes_of(value: Obj) -> int | None:
    """Classes of a torchvision classifier: its replaced head, ``num_classes``, or the 1000 of ImageNet."""
    module = module_of(value)
    if module is None:
        return None
    for head in ("fc", "classifier", "head", "heads"):
        held = module.attrs.get(head)
        layer = settle(held) if held is not None else None
        if isinstance(layer, Obj) and layer.kind == "call" and layer.name == "torch.nn.Linear":
            size = plain(layer.argument(1, "out_features"))
            return size if isinstance(size, int) else None
        if layer is not None and not (isinstance(layer, Obj) and layer.kind == "attr" and not layer.attrs):
            return None
    if module.open_args:
        return None
    given = module.kwargs.get("num_classes")
    size = plain(given) if given is not None else 1000
    return size if isinstance(size, int) else None


_CONVOLUTIONS = r"^nn\.(Conv|ConvTranspose)[123]d$"
_KEEPING = r"^(nn\.)?(adaptive_)?(max|avg|Max|Avg|AdaptiveMax|AdaptiveAvg)_?[pP]ool[123]d$|^nn\.(BatchNorm|InstanceNorm)[23]d$|^nn\.GroupNorm$"


def channels(value: Value | None, depth: int = 0) -> int | None:
    """Channels of the images that a convolution made, as long as nothing but pooling and the like changes them."""
    if value is None or depth > 40:
        return None
    value = settle(value)
    if isinstance(value, Choice):
        found = {channels(o, depth + 1) for o in value.options}
        return found.pop() if len(found) == 1 else None
    if not isinstance(value, Obj):
        return None
    name = operation(value) or ""
    if re.match(_CONVOLUTIONS, name):
        module = module_of(value)
        made = plain(module.argument(1, "out_channels")) if module is not None and not module.open_args else None
        return made if isinstance(made, int) else None
    if name in _POINTWISE or re.match(_KEEPING, name):
        return channels(operand(value), depth + 1)
    return None


_POINTWISE = ELEMENTWISE - {"nn.LayerNorm", "nn.RMSNorm", "type"}
