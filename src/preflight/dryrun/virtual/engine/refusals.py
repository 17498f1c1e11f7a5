"""What CUDA refuses and fake tensors let pass: types that disagree in products, targets of a wrong type, constants too large.

The messages are those of PyTorch 2.13.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from preflight.dryrun.virtual.engine.operators import SPECIAL

_NAMES = {
    torch.float64: "Double", torch.float32: "Float", torch.float16: "Half", torch.bfloat16: "BFloat16",
    torch.int64: "Long", torch.int32: "Int", torch.int16: "Short", torch.int8: "Char", torch.uint8: "Byte",
    torch.bool: "Bool", torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble",
}  # fmt: skip


def install() -> None:
    """Check arguments before the operator runs; the operator itself is left to the fake tensors."""
    for name, first in (("mm", 0), ("bmm", 0), ("addmm", 1), ("baddbmm", 1)):
        SPECIAL.setdefault(name, _product(first))
    for name in ("nll_loss_forward", "nll_loss2d_forward"):
        SPECIAL.setdefault(name, _target)
    for name, at in (("masked_fill", 2), ("masked_fill_", 2), ("fill", 1), ("fill_", 1), ("full_like", 1)):
        SPECIAL.setdefault(name, _constant(at))
    SPECIAL.setdefault("full", _full)


def _name(dtype: torch.dtype) -> str:
    return _NAMES.get(dtype, str(dtype).removeprefix("torch."))


def _product(first: int) -> Any:
    def check(gpu: Any, func: Any, args: Any, kwargs: Any) -> Any:
        one, other = args[first], args[first + 1]
        if one.dtype != other.dtype:
            if first:
                words = f"mat1 and mat2 must have the same dtype, but got {_name(one.dtype)} and {_name(other.dtype)}"
            else:
                words = f"expected m1 and m2 to have the same dtype, but got: {_plain(one)} != {_plain(other)}"
            raise RuntimeError(words)
        # With out_dtype, what is added has the type of the result.
        if first and not func._overloadname.startswith("dtype") and args[0].dtype != other.dtype:
            names = f"{_name(args[0].dtype)} and {_name(other.dtype)}"
            raise RuntimeError(f"self and mat2 must have the same dtype, but got {names}")
        return NotImplemented

    return check


def _plain(tensor: Any) -> str:
    return _name(tensor.dtype).lower()


def _target(gpu: Any, func: Any, args: Any, kwargs: Any) -> Any:
    if args[1].dtype not in (torch.int64, torch.uint8):
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {_name(args[1].dtype)}")
    return NotImplemented


def _constant(at: int) -> Any:
    def check(gpu: Any, func: Any, args: Any, kwargs: Any) -> Any:
        if len(args) > at:
            _fits(args[at], kwargs.get("dtype") or args[0].dtype)
        return NotImplemented

    return check


def _full(gpu: Any, func: Any, args: Any, kwargs: Any) -> Any:
    dtype = kwargs.get("dtype")
    if dtype is not None and len(args) > 1:
        _fits(args[1], dtype)
    return NotImplemented


def _fits(value: Any, dtype: torch.dtype) -> None:
    """Refuse a finite number that a floating-point type cannot hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not dtype.is_floating_point:
        return
    # fp32 takes every Python float as an infinity; fp8 has rules of its own.
    if dtype == torch.float16 and math.isfinite(value) and abs(value) > torch.finfo(dtype).max:
        raise RuntimeError("value cannot be converted to type at::Half without overflow")
