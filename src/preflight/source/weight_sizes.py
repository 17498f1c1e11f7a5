"""Elements of single weights: of one that is tied to another layer's, of one that is split into two."""

from __future__ import annotations

from preflight.source.layer_sizes import SIZES
from preflight.source.tensor_shapes import numel_of
from preflight.source.unsized import Unsized
from preflight.source.values import Known, Obj, settle


def tied_elements(obj: Obj) -> int:
    """Elements of weights that were replaced by a parameter of another layer."""
    saved = 0
    for name in ("weight", "bias"):
        held = obj.attrs.get(name)
        value = settle(held) if held is not None else None
        if (
            isinstance(value, Obj)
            and value.kind == "attr"
            and value.receiver is not None
            and settle(value.receiver) is not obj
        ):
            saved += _part(obj, name)
        elif isinstance(value, Obj) and value.name == "torch.nn.Parameter":
            size = numel_of(value.argument(0, "data"))
            saved += _part(obj, name) - size if size is not None else 0  # else it fits, as the layer computes with it
    return saved


def lengths_beside(obj: Obj, path: str) -> int:
    """``weight_norm`` splits a weight into direction and length: one more number per output."""
    if not obj.name.endswith("weight_norm"):
        return 0
    inner = settle(obj.args[0])
    if isinstance(inner, Obj):
        out = inner.argument(1, "out_features") or inner.argument(1, "out_channels")
        width = settle(out) if out is not None else None
        if isinstance(width, Known) and isinstance(width.value, int):
            return width.value
    raise Unsized(f"{path} is normalised by weight, and its width is not known")


def _part(obj: Obj, name: str) -> int:
    """Elements of a layer's weight or bias."""
    without = SIZES[obj.name](obj) if obj.name in SIZES else None
    if without is None:
        return 0
    out = settle(obj.argument(1, "out_features") or obj.argument(1, "out_channels") or Known(None))
    width = out.value if isinstance(out, Known) and isinstance(out.value, int) else 0
    bias = settle(obj.argument(2, "bias") or Known(True))
    has_bias = obj.name == "torch.nn.Linear" and not (isinstance(bias, Known) and bias.value is False)
    if name == "bias":
        return width if has_bias else 0
    return without - (width if has_bias else 0)
