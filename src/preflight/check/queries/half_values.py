"""float16 values: whether a tensor is one, by a call of ``half`` or by autocast."""

from __future__ import annotations

from preflight.check.queries.tensors import VIEWS, operation, origin
from preflight.source.trace import Context as Frame
from preflight.source.values import Known, Obj, Value, plain, settle

# Operations whose result autocast makes float16, as PyTorch lists them.
_HALF = frozenset(
    {"@", "matmul", "bmm", "mm", "einsum", "baddbmm", "nn.Linear", "linear", "nn.Conv1d", "nn.Conv2d", "addmm"}
)
_SCALING = frozenset({"*", "/", "+", "-"})
# What leaves the format as it is, under autocast too.
_SAME = VIEWS - {"float", "double", "to", "half", "type", "bfloat16", "type_as"}
_FULL = _SAME | {"abs", "neg", "relu", "leaky_relu", "detach", "dropout", "clamp", "clip"}


def is_half(value: Value | None, frame: Frame | None) -> bool:
    """Whether a value is float16, by a call of half or by autocast."""
    for _ in range(12):
        found = origin(value, _FULL)
        name = operation(found)
        if found is None:
            return False
        if name == "half":
            return True
        if name in _SCALING and found.args:
            others = [settle(a) for a in found.args]
            if not any(isinstance(a, Known) for a in others):
                return False
            value = next((a for a in found.args if not isinstance(settle(a), Known)), None)
            continue
        return name in _HALF and half_autocast(found.context or frame)
    return False


def half_autocast(frame: Frame | None) -> bool:
    """Whether a place is inside an enabled float16 autocast."""
    for entered in frame.withs() if frame is not None else []:
        manager = settle(entered)
        if not isinstance(manager, Obj) or manager.name not in ("torch.autocast", "torch.cuda.amp.autocast"):
            continue
        old = manager.name == "torch.cuda.amp.autocast"
        if plain(manager.argument(0 if old else 2, "enabled"), True) is not True:
            return False
        dtype = manager.argument(1, "dtype")
        if dtype is not None:
            return getattr(settle(dtype), "name", "") in ("torch.float16", "torch.half")
        device = manager.argument(0, "device_type")
        return old or (device is not None and str(plain(device, "")).startswith("cuda"))
    return False
