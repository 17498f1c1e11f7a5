"""What a number on the virtual GPU plausibly is, by where it comes from.

Fake tensors hold no numbers. A script still asks for some (``loss.item()``, ``if torch.isnan(x).any()``), so the typical
value of an element is carried along where the operators tell: constants, losses, tests for NaN, and arithmetic on them.
An index that a network chose (``argmax``, ``topk``) is taken to be any of the possible ones as often as every other, as
a router that is balanced chooses its experts: of ``chosen == 3`` with eight experts an eighth is true.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

_NAME = "_typical_value"
_CONSTANT_BELOW = 1 << 18  # a tensor that is moved to the GPU is looked at when it has at most so many elements

_UNARY: dict[str, Callable[[float], float]] = {
    "neg": operator.neg,
    "abs": abs,
    "exp": math.exp,
    "log": math.log,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "logical_not": lambda x: float(not x),
    "bitwise_not": lambda x: float(not x),
    "isnan": lambda x: 0.0,
    "isinf": lambda x: 0.0,
    "isfinite": lambda x: 1.0,
}
_BINARY: dict[str, Callable[[float, float], float]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "pow": operator.pow,
    "maximum": max,
    "minimum": min,
    "eq": lambda a, b: float(a == b),
    "ne": lambda a, b: float(a != b),
    "lt": lambda a, b: float(a < b),
    "le": lambda a, b: float(a <= b),
    "gt": lambda a, b: float(a > b),
    "ge": lambda a, b: float(a >= b),
    "logical_and": lambda a, b: float(bool(a) and bool(b)),
    "logical_or": lambda a, b: float(bool(a) or bool(b)),
    "bitwise_and": lambda a, b: float(bool(a) and bool(b)),
    "bitwise_or": lambda a, b: float(bool(a) or bool(b)),
}
_SAME = frozenset(
    "clone detach alias view _unsafe_view reshape expand unsqueeze squeeze transpose permute t slice select "
    "contiguous _to_copy to lift_fresh mean amax amin median stack cat any all max min where index unbind split "
    "expand_as view_as copy repeat clamp clamp_min clamp_max nan_to_num masked_fill unsqueeze_ cumsum_".split()
)
_CHOOSES = frozenset(("argmax", "argmin", "topk", "max", "min", "multinomial"))
_TESTS = {"isnan": 0.0, "isinf": 0.0, "isfinite": 1.0, "eq": 0.5, "ne": 0.5, "lt": 0.5, "le": 0.5, "gt": 0.5, "ge": 0.5}
_KEEPS = frozenset(("_amp_update_scale_", "_amp_foreach_non_finite_check_and_unscale_", "copy_", "detach_"))
_LOSSES = {"mse_loss": 1.0, "l1_loss": 1.0, "smooth_l1_loss": 0.5, "huber_loss": 0.5, "binary_cross_entropy": 0.6931}


class Index(float):
    """The typical value, 0.0, of an index that is one of ``among`` with equal chances."""

    among: int

    def __new__(cls, among: int) -> Index:
        """Make one of so many."""
        index = super().__new__(cls, 0.0)
        index.among = max(1, among)
        return index

    def share(self, test: str, other: float | None) -> float | None:
        """Return how often a comparison with another number holds, or None where that cannot be said."""
        if test in ("eq", "ne"):
            equal = 1.0 / self.among
            if other is not None and not isinstance(other, Index) and not (0 <= other < self.among):
                equal = 0.0
            return equal if test == "eq" else 1.0 - equal
        if other is None or isinstance(other, Index):
            return None
        below = other + 1.0 if test in ("le", "gt") else other  # of whole numbers
        share = min(1.0, max(0.0, below / self.among))
        return share if test in ("lt", "le") else 1.0 - share


def typical(value: Any) -> float | None:
    """Return the typical value of an element of a tensor, or a plain number itself."""
    if isinstance(value, (bool, int, float)):
        return float(value)
    found = getattr(value, _NAME, None)
    if not isinstance(found, tuple) or found[0] is None:
        return None
    return found[0] if _version(value) in found[1:] else None  # it was written to by way of another view


def remember(tensor: Any, value: float | None, changed: bool = False) -> None:
    """Note the typical value of an element.

    Args:
        tensor: The tensor.
        value: The value.
        changed: The tensor is being changed in place: PyTorch counts that after the operator.
    """
    at = _version(tensor) if value is not None else 0
    tensor.__dict__[_NAME] = (value, at, at + changed)


def _version(tensor: Any) -> int:
    """Return the number of changes in place that a tensor and its views have seen."""
    try:
        return int(tensor._version)
    except RuntimeError:  # inference tensors do not count
        return -1


def constant_of(real: Any) -> float | None:
    """Return the number that a real tensor holds everywhere, or None."""
    count = real.numel()
    if not 0 < count <= _CONSTANT_BELOW or real.is_complex():
        return None
    first = real.reshape(-1)[0]
    return float(first.item()) if bool((real == first).all()) else None


def read(tensor: Any) -> Any:
    """Return what ``item()`` gives: the typical value as the type of the tensor, with 1.0, 0 and False where nothing tells."""
    value = typical(tensor)
    if tensor.dtype.is_floating_point:
        return 1.0 if value is None else value
    if str(tensor.dtype) == "torch.bool":
        return False if value is None else value >= 1.0
    if tensor.dtype.is_complex:
        return complex(1.0 if value is None else value)
    return 0 if value is None else int(value)


def follow(name: str, args: tuple[Any, ...], result: Any) -> float | None:
    """Return the typical value of what an operator gives.

    Args:
        name: The operator's name without namespace and overload; a trailing underscore (in place) does not matter.
        args: Its positional arguments.
        result: The fake tensor.
    """
    if name in _KEEPS:
        return typical(result)
    name = name.rstrip("_")
    try:
        return _follow(name, args, result)
    except (ArithmeticError, ValueError, TypeError):
        return None


def _index(name: str, args: tuple[Any, ...], result: Any) -> float | None:
    """Return what is typical of the indices that an operator chose; of the values beside them nothing is known."""
    source = args[0]
    if name in ("topk", "max", "min") and (result.dtype == source.dtype or len(args) < 2):
        return typical(source) if name in _SAME else None
    if name == "multinomial":
        at: Any = -1
    elif name == "topk":
        at = args[2] if len(args) > 2 else -1
    else:
        at = args[1] if len(args) > 1 else None
    return Index(source.numel() if at is None else source.shape[at])


def _follow(name: str, args: tuple[Any, ...], result: Any) -> float | None:
    first = args[0] if args else None
    if isinstance(first, (list, tuple)):
        first = first[0] if first else None
    if name == "_is_all_true":  # a check of arguments: those of a working script pass
        return 1.0
    if name in _CHOOSES:
        return _index(name, args, result)
    if name in ("zeros", "zeros_like", "zero", "new_zeros"):
        return 0.0
    if name in ("ones", "ones_like", "new_ones"):
        return 1.0
    if name in ("full", "full_like", "fill", "new_full"):
        at = {"new_full": 2}.get(name, 1)
        return typical(args[at]) if len(args) > at else None
    if name in ("_log_softmax", "log_softmax"):
        return -math.log(max(2, result.shape[args[1]]))
    if name in ("_softmax", "softmax"):
        return 1.0 / max(1.0, float(result.shape[args[1]]))
    if name.startswith("nll_loss"):
        told = typical(first)
        return -told if told is not None else 1.0
    if name in _LOSSES:
        return _LOSSES[name]
    known = typical(first)
    if name == "scatter" and known is not None:  # ``one_hot`` writes ones among zeros
        written = typical(args[3])
        return None if written is None else known + (written - known) * min(1.0, args[2].numel() / result.numel())
    if isinstance(known, Index) and name in _TESTS and len(args) > 1:
        share = known.share(name, typical(args[1]))
        return _TESTS[name] if share is None else share
    if name in ("eq", "ne") and len(args) > 1 and isinstance(other := typical(args[1]), Index):
        return other.share(name, known)
    if isinstance(known, Index) and name in ("floor_divide", "remainder") and len(args) > 1:
        by = typical(args[1])
        if by is None or by < 1:
            return None
        return Index(math.ceil(known.among / by) if name == "floor_divide" else min(known.among, int(by)))
    if name == "sum" and known is not None:
        return known * float(getattr(first, "numel", lambda: 1)()) / max(1.0, float(result.numel()))
    if name in _UNARY and known is not None:
        return _UNARY[name](known)
    if name in _BINARY and len(args) > 1 and not isinstance(known, Index):
        other = typical(args[1])
        if known is not None and other is not None:
            return float(_BINARY[name](known, other))
    if name in _TESTS:
        return _TESTS[name]
    return known if name in _SAME else None
