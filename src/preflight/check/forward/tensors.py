"""A tensor of a forward pass that was only read: its shape, its storage, and how much of it is kept."""

from __future__ import annotations

import math
from typing import NamedTuple

from preflight.source.values import Obj

Shape = tuple[int, ...]


class Tensor:
    """A tensor.

    Attributes:
        shape: Sizes of its dimensions, the batch's included.
        graded: Whether gradients flow to it.
        storage: What holds its elements; views share one.
    """

    __slots__ = ("graded", "shape", "storage")

    def __init__(self, shape: Shape, graded: bool, storage: Storage) -> None:
        self.shape = shape
        self.graded = graded
        self.storage = storage

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def __repr__(self) -> str:
        return f"Tensor{self.shape}"


class Storage:
    """Memory that tensors share.

    Attributes:
        elements: Elements that it holds.
        times: How many of it are alive: passes of a loop that was followed once.
        kept: Whether something keeps it for the backward pass.
        own: Whether the forward pass allocated it; parameters are held anyway.
        width: Bytes of an element, in units of the type that products are computed in: 2 for fp32 under autocast.
    """

    __slots__ = ("elements", "kept", "own", "times", "width")

    def __init__(self, elements: float, times: int = 1, own: bool = True) -> None:
        self.elements = elements
        self.times = times
        self.kept = False
        self.own = own
        self.width = 1.0

    @property
    def size(self) -> float:
        """What one of it takes, in elements of the type that products are computed in."""
        return self.elements * self.width


class Misfit(NamedTuple):
    """A layer that is given another width than it was made for.

    Attributes:
        value: What it would make.
        shape: The shape that it is given.
        dimension: Which of its sizes does not fit.
        wanted: What that should be.
    """

    value: Obj
    shape: Shape
    dimension: int
    wanted: int


Result = Tensor | tuple["Result", ...] | None
"""What an operation yields: a tensor, several (also nested: a recurrent layer's states), or nothing that is known."""
