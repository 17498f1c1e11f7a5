"""How the heads of an attention were cut out of what a layer gave: with the positions kept together, or across them.

``view(batch, heads, positions, width)`` gives each head a stretch of positions in place of a share of the features of each.
The sizes are those that ``view(batch, positions, heads, width).transpose(1, 2)`` gives. Each operation of a graph knows the
shape of what it was given, so that the numbers are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from .graph import SOFTMAX, Graph, name_of

_VIEWS = ("View", "UnsafeView", "ReshapeAlias")
_SAME = ("Clone", "Mul", "Div", "ToCopy", "NativeDropout")
_MOST = 4
_DEEP = 10
_END = 1 << 64

Shape = tuple[int, ...]


def heads(graph: Graph) -> Iterator[tuple[Shape, Shape, bool]]:
    """What queries and keys were cut from and into, and whether that goes across positions.

    Args:
        graph: The graph of a loss.

    Yields:
        The shapes before (samples, positions, features) and after the cut, and whether it tears positions apart.
    """
    for place in islice(_attentions(graph), _MOST):
        node = graph.nodes[place]
        found = None
        if graph.names[place].startswith("ScaledDotProduct"):
            for one, word in zip(node.next_functions[:2], ("_saved_query", "_saved_key"), strict=False):
                held = graph.held(place, word)
                found = found or (None if held is None else _cut(one[0], tuple(held.shape)))
        else:
            product = graph.product(place)
            if product >= 0 and graph.names[product] == "Bmm":
                for one, _ in graph.nodes[product].next_functions[:2]:
                    found = found or _cut(one, None)
        if found is not None:
            yield found


def _attentions(graph: Graph) -> Iterator[int]:
    return (at for at, name in enumerate(graph.names) if name in SOFTMAX or name.startswith("ScaledDotProduct"))


def _cut(node: Any, shape: Shape | None) -> tuple[Shape, Shape, bool] | None:
    """Where heads were cut out, above a tensor of a shape, which is known once an operation tells it; None: not seen."""
    moved = False  # whether the second and the third axis have changed places
    for _ in range(_DEEP):
        if node is None:
            return None
        name = name_of(node)
        if name in _VIEWS or name == "Expand":
            before = getattr(node, "_saved_self_sym_sizes", None)
            if before is None or not all(isinstance(size, int) for size in before):
                return None
            before = tuple(before)
            if name in _VIEWS and shape is not None and len(shape) == 4 and len(before) == 3:
                return _judged(before, shape, moved)
            shape = before
        elif name == "Transpose" and shape is not None and len(shape) == 4:
            axes = {_axis(getattr(node, f"_saved_dim{number}", 0)) for number in (0, 1)}
            if axes == {1, 2} and not moved:
                moved = True
                shape = (shape[0], shape[2], shape[1], shape[3])
            elif axes == {2, 3} and not moved:
                shape = (*shape[:2], shape[3], shape[2])
            else:
                return None
        elif name not in _SAME:
            return None
        node = next((below for below, _ in node.next_functions if below is not None), None)
    return None


def _axis(number: int) -> int:
    """An axis of four, also where it is counted from the end."""
    return number - _END + 4 if number >= _END >> 1 else number


def _judged(before: Shape, after: Shape, moved: bool) -> tuple[Shape, Shape, bool] | None:
    """Whether a view of (samples, positions, features) has heads before positions; None where both are as many, or one."""
    heads_, positions = (after[2], after[1]) if moved else (after[1], after[2])
    fits = before[0] == after[0] and positions == before[1] and heads_ * after[3] == before[2]
    if not fits or min(heads_, positions) < 2 or heads_ == positions:
        return None
    return before, after, not moved
