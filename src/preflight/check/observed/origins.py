"""Where a tensor of a dry run comes from, in the words of rules."""

from __future__ import annotations

from preflight.vocabulary.seen import Observation

LAYERS = frozenset(
    "addmm mm bmm baddbmm matmul linear convolution cudnn_convolution native_layer_norm embedding".split()
)
"""Operators whose results may be any number: those of linear layers, convolutions and layer norm."""

# They choose some of the numbers and leave each as it is.
_CHOOSING = frozenset("index index_select gather masked_select cat stack expand repeat".split())
_NAMES = {"_softmax": "soft-max", "_log_softmax": "log-soft-max", "addmm": "linear layer", "mm": "linear layer"}
_NAMES |= {"linear": "linear layer", "convolution": "convolution", "native_layer_norm": "layer norm"}


def origin(seen: Observation, at: int = 0) -> tuple[str, str]:
    """The operator that made the input, and its ``file:line``; two empty texts where that is not known.

    Args:
        seen: An observation with a path.
        at: How many operators to go further back.
    """
    places = seen.data.get("places", ())
    steps = [
        (name, places[number] if number < len(places) else "")
        for number, name in enumerate(seen.data.get("path", ()))
        if name not in _CHOOSING
    ]
    return steps[at] if at < len(steps) else ("", "")


def title(operator: str) -> str:
    """An operator's name in the words of the field."""
    return _NAMES.get(operator, operator.strip("_"))


def first_of_each(found: list[Observation]) -> list[Observation]:
    """The first observation of each line."""
    kept: dict[str, Observation] = {}
    for item in found:
        kept.setdefault(item.line, item)
    return list(kept.values())
