"""The end of the graph that leads to a loss, as the recorder tells it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

PASSING = (
    *("View", "UnsafeView", "ReshapeAlias", "Squeeze", "Unsqueeze", "Transpose", "Permute", "T", "Clone", "Alias"),
    *("ToCopy", "Slice", "Select", "Index", "IndexSelect", "MaskedSelect", "Split", "SplitWithSizes", "Unbind"),
    *("AsStrided", "Expand", "Cat", "Stack", "Contiguous", "Flatten", "Identity"),
)
"""Operations that hand on the numbers that they are given."""


_SCALES = ("Mul", "Div")
_SUMMED = frozenset({*_SCALES, "Add", "Sub", "Rsub", "Neg", "Mean", "Sum"})
_LAYERS = frozenset({"Addmm", "Mm", "Bmm", "Baddbmm", "Mv", "Convolution", "NativeLayerNorm", "NativeBatchNorm"})
"""Operations with weights, of whose results the sign is anybody's guess."""


def without_scale(told: list[list[Any]]) -> tuple[list[list[Any]], bool]:
    """The operations of a loss without those that only multiply or divide all of it, and whether there were any.

    How many passes are accumulated, and whether a scaler scales, decides over these.

    Args:
        told: The operations as the recorder tells them, the loss first.
    """
    place, scaled, gone = 0, False, set()
    while 0 <= place < len(told):
        name, shape, _, below, *_ = told[place]
        above = [one for one in below if one >= 0]
        scales = name in _SCALES and not shape and len(below) <= 2
        if len(above) != 1 or not (scales or name in PASSING):
            break
        scaled = scaled or scales
        gone.add(place)
        place = above[0]
    return [one for number, one in enumerate(told) if number not in gone], scaled


def may_cancel(told: Sequence[Sequence[Any]]) -> bool:
    """Whether what a layer with weights gives out is only summed, averaged and weighed, so that a loss may be of either sign.

    Args:
        told: The operations as the recorder tells them, the loss first.
    """
    waiting = [0]
    for place in waiting:
        name, _, _, below, *_ = told[place]
        if name in _LAYERS:
            return True
        if name in _SUMMED or name in PASSING:
            waiting += [one for one in below if 0 <= one < len(told) and one not in waiting]
    return False


class Node(NamedTuple):
    """An operation.

    Attributes:
        place: Its position in the list; the loss is at 0.
        name: Its name, as ``Softmax`` or ``Addmm``.
        shape: The shape of its result, where it is known.
        dim: The dimension over which it goes, where it has one.
        below: The positions of what it is computed from; -1 for what needs no gradient.
        constant: The shape of the factor without a gradient, of a product that stretches the other one; None where it is
            not known.
    """

    place: int
    name: str
    shape: list[int] | None
    dim: int | None
    below: list[int]
    constant: list[int] | None = None


class Tail:
    """The operations between a loss and the last ones with weights."""

    def __init__(self, told: list[list[Any]]) -> None:
        self.nodes = [Node(place, *one) for place, one in enumerate(told)]

    def source(self, place: int) -> Node | None:
        """What computed the numbers that stand at a place, looking through what only hands them on."""
        for _ in self.nodes:
            if not 0 <= place < len(self.nodes):
                return None
            node = self.nodes[place]
            if node.name not in PASSING or not node.below:
                return node
            below = {one for one in node.below if one >= 0}
            if len(below) != 1:
                return self._common(below)
            place = below.pop()
        return None

    def _common(self, below: set[int]) -> Node | None:
        """Several things put together: one of them, if all were made by operations of one name."""
        found = [self.source(one) for one in sorted(below)]
        names = {one.name if one is not None else None for one in found}
        return found[0] if len(names) == 1 and found else None

    def users(self, node: Node) -> list[Node]:
        """What an operation's result is used by, looking through what only hands it on."""
        found: list[Node] = []
        waiting = [node.place]
        for place in waiting:
            for one in self.nodes:
                if place in one.below:
                    if one.name in PASSING and one.place not in waiting:
                        waiting.append(one.place)
                    elif one.name not in PASSING:
                        found.append(one)
        return found
