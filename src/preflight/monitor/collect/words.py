"""What is told of an operation beside its name: the axes that it goes along, and what it was told that no size decides."""

from __future__ import annotations

from typing import Any

from .unpacking import runs_a_hook

DROPPED = "NativeDropout"
LAYOUT = frozenset(
    "View UnsafeView Reshape ReshapeAlias Alias Expand Squeeze Unsqueeze Unflatten T Clone ToCopy Split SplitWithSizes Chunk "
    "Unbind AsStrided Narrow Repeat NativeDropout Identity Contiguous _DDPSink".split()
)
"""Operations that lay numbers out, copy, cast or drop them: which of these there are depends on sizes and settings."""
OF_A_PARAMETER = LAYOUT | {"Slice", "Select", "Transpose", "Permute"}
"""Operations through which a parameter is still the same one."""
EITHER_WAY = frozenset({"Add", "Mul", "Cat", "Stack", "Maximum", "Minimum", "Foreach"})
"""Operations of which it is not told which input is which."""
_SPLITTING = {"Split": 4, "SplitWithSizes": 4, "Unbind": 3}
"""Operations with several results, and up to how many of these it is told which one is taken: more are counted by a size."""
_AXES = ("dim", "dims", "dim0", "dim1")
_PRODUCTS = ("Addmm", "Baddbmm", "Addmv", "Addbmm")
_TOLD = (
    *("reduction", "ignore_index", "beta", "delta", "margin", "exponent", "ord", "p", "negative_slope", "approximate"),
    *("threshold", "lambd", "zero_infinity", "log_target", "is_causal", "training", "correction", "eps", "descending"),
    *("transposed", "min", "max"),
)
_OF_A_CONVOLUTION = ("stride", "padding", "dilation")
_GIVEN: dict[str, tuple[str, ...]] = {
    "weight": ("NllLoss", "NllLoss2D", "BinaryCrossEntropy", "BinaryCrossEntropyWithLogits"),
    "pos_weight": ("BinaryCrossEntropyWithLogits",),
}
_MASKED = ("attn_mask", "attn_bias", "bias")
_END = 1 << 64
_known: dict[str, frozenset[str]] = {}


def of(node: Any, name: str) -> str:
    """What is told of an operation, in brackets; nothing for a function that the program wrote.

    Args:
        node: The operation.
        name: Its name, as ``Softmax``.
    """
    if not str(node.name())[-1:].isdigit():  # torch numbers its own
        return ""
    if name == "Slice":
        return _slice(node)
    saved = _saved(node)
    told = [*_along(node, saved), *_settings(node, name, saved)]
    if name == "Select":
        index = _signed(getattr(node, "_saved_index", None))
        told.append("last" if index == -1 else "first" if index == 0 else "one")
    return f"({' '.join(told)})" if told else ""


def part(node: Any, name: str, number: int) -> str:
    """Which one of a few results of an operation is taken.

    Args:
        node: The operation.
        name: Its name.
        number: The number of the result.
    """
    most = _SPLITTING.get(name)
    if most is None:
        return ""
    results = len(getattr(node, "_input_metadata", ()))
    few = results == most if name == "Unbind" else 1 < results <= most
    return f"#{number}" if few else ""


def _saved(node: Any) -> frozenset[str]:
    """The names under which operations of this kind save something; torch has some hundred kinds."""
    kind = str(node.name())
    if kind not in _known:
        held = (word.removeprefix("_saved_") for word in dir(type(node)) if word.startswith("_saved_"))
        _known[kind] = frozenset(held)
    return _known[kind]


def _slice(node: Any) -> str:
    """Where a slice begins behind the first, or ends before the last: how many it takes depends on sizes."""
    start, end = _signed(getattr(node, "_saved_start", None)), _signed(getattr(node, "_saved_end", None))
    begins = isinstance(start, int) and start > 0
    ends = isinstance(end, int) and end < 0
    return "(without the first)" if begins and not ends else "(without the last)" if ends else ""


def _along(node: Any, saved: frozenset[str]) -> list[str]:
    """The axes of an operation, counted from the last one; none where that cannot be told."""
    found: list[str] = []
    axes_of = [word for word in _AXES if word in saved]
    if not axes_of:
        return found
    sizes = getattr(node, "_saved_self_sym_sizes", None)
    held = getattr(node, "_input_metadata", None)
    dimensions = len(sizes) if isinstance(sizes, tuple) else _dimensions(held)
    for word in axes_of:
        value = getattr(node, f"_saved_{word}", None)
        axes = value if isinstance(value, tuple) else (value,)
        signed = [_signed(one) for one in axes]
        if dimensions is None or not all(isinstance(one, int) for one in signed):
            continue
        found.append(",".join(str(one if one < 0 else one - dimensions) for one in signed))
    return found


def _dimensions(held: Any) -> int | None:
    try:
        return len(held[0].shape)
    except (AttributeError, IndexError, TypeError, ValueError, RuntimeError):
        return None  # nested, or of an older torch


def _settings(node: Any, name: str, saved: frozenset[str]) -> list[str]:
    """What an operation was told that no size decides, as words."""
    found: list[str] = []
    for word in (*_TOLD, *(_OF_A_CONVOLUTION if name == "Convolution" else ())):
        if word not in saved or (word == "beta" and name in _PRODUCTS):
            continue
        value = getattr(node, f"_saved_{word}", None) if _numbers(node, word) else None
        if isinstance(value, (bool, int, float, str)) or (word in _OF_A_CONVOLUTION and isinstance(value, tuple)):
            found.append(f"{word}={_short(value)}")
    for word, names in _GIVEN.items():
        if name in names and _there(node, word):
            found.append(word)
    if name.startswith("ScaledDotProduct") and any(_there(node, word) for word in _MASKED):
        found.append("masked")
    alpha = getattr(node, "_saved_alpha", None) if "alpha" in saved and _numbers(node, "alpha") else None
    if isinstance(alpha, (int, float)) and alpha < 0:
        found.append("taken away")
    return found


def _numbers(node: Any, word: str) -> bool:
    """Whether what is saved under a word is no tensor: to read one may run a hook of the program."""
    return getattr(node, f"_raw_saved_{word}", None) is None


def _there(node: Any, word: str) -> bool:
    """Whether an operation was given a tensor that it need not be given."""
    saved = getattr(node, f"_raw_saved_{word}", None)
    if saved is None or runs_a_hook(node, word):
        return False
    try:
        return getattr(node, f"_saved_{word}") is not None
    except (AttributeError, RuntimeError):
        return False


def _short(value: Any) -> str:
    if isinstance(value, tuple):
        return "x".join(str(_signed(one)) for one in value)
    return f"{value:.6g}" if isinstance(value, float) else str(_signed(value))


def _signed(value: Any) -> Any:
    """A whole number; one below zero is kept as a number of 64 bits without a sign."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= _END >> 1:
        return value - _END
    return value
