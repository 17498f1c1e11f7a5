"""Shapes that are written with a name for every axis: ``rearrange(x, "b (h w) c -> b c h w", h=16)`` of einops."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from preflight.check.forward.tensors import Shape

_PARTS = re.compile(r"\([^()]*\)|\S+")


def rearranged(shape: Shape, pattern: str, sizes: Mapping[str, int]) -> Shape | None:
    """Return the shape behind a pattern, or None where it does not fit or leaves a size open.

    Args:
        shape: What is rearranged.
        pattern: Axes before and behind ``->``; those in brackets lie in one dimension.
        sizes: Sizes of axes that are told.
    """
    before, arrow, behind = pattern.partition("->")
    groups = [part.strip("()").split() for part in _PARTS.findall(before)]
    if not arrow or any("..." in group or "…" in group for group in groups) or len(groups) != len(shape):
        return None
    known = dict(sizes)
    for group, size in zip(groups, shape, strict=True):
        told = math.prod(_size(axis, known) or 1 for axis in group)
        left = [axis for axis in group if _size(axis, known) is None]
        if len(left) > 1 or size % told or (not left and size != told):
            return None
        if left:
            known[left[0]] = size // told
    found: list[int] = []
    for part in _PARTS.findall(behind):
        axes = [_size(axis, known) for axis in part.strip("()").split()]
        if any(axis is None for axis in axes):
            return None
        found.append(math.prod(axis for axis in axes if axis is not None))
    return tuple(found)


def _size(axis: str, known: Mapping[str, int]) -> int | None:
    return int(axis) if axis.isdigit() else known.get(axis)
