"""What a loss is computed by: the end of the graph that leads to it, up to the last operation with weights.

No values are told, and nothing of the graph is kept: names of operations, the shapes of their results, and the dimension
where one has one. It is looked at in the first few backward passes of each place in the code, and told when it is new.
A product by which a layer drops is told by the name that dropout has on other devices.
"""

from __future__ import annotations

import sys
from typing import Any

from .bounded import BoundedLooks
from .dropped import constant, drops
from .graph import name_of
from .plain import plain_types
from .unpacking import runs_a_hook

_MOST_NODES = 40
_MOST_LOOKS = 6
_MOST_MASKS = 4  # products that are asked whether they drop
_MOST_PLACES = 64
_END = 1 << 63  # a negative dimension is kept as a number of 64 bits without a sign
DROPPED = "NativeDropout"
WEIGHTS = ("Addmm", "Mm", "Bmm", "Baddbmm", "Addbmm", "Mv", "Convolution", "Embedding", "AccumulateGrad", "Compiled")


class Tails:
    """Looks at the ends of graphs, a few times for each place."""

    def __init__(self) -> None:
        plain_types(sys.modules["torch"])  # what the quick look at masks compares with
        self._looks = BoundedLooks(_MOST_LOOKS, _MOST_PLACES)
        self._told: dict[str, set[str]] = {}

    def of(self, place: str, loss: Any) -> list[list[Any]] | None:
        """The end of the graph of a loss, or None where there is none or it was told before.

        One entry for each operation, the loss itself first: its name, the shape of its result or None, its dimension
        or None, and the positions in this list of what it is computed from (-1 for what needs no gradient, or is not told).
        A product that stretches what it is computed from has one thing more: the shape of its constant factor, or None.
        """
        if not self._looks.take(place):
            return None
        if getattr(loss, "grad_fn", None) is None:
            return None
        found = _walk(loss.grad_fn)
        told = self._told.setdefault(place, set())
        kind = repr([(one[0], one[3]) for one in found])
        if kind in told:
            return None
        told.add(kind)
        return found


def _walk(root: Any) -> list[list[Any]]:
    nodes = [root]
    at = {id(root): 0}
    found: list[list[Any]] = []
    masks = 0
    for node in nodes:  # grows as it goes
        name = name_of(node)
        if name == "Mul" and masks < _MOST_MASKS and any(below is None for below, _ in node.next_functions):
            masks += 1
            name = DROPPED if drops(node) else name
        entry: list[Any] = [name, _shape(node), _dimension(node), []]
        found.append(entry)
        if name.startswith(WEIGHTS):
            continue
        for below, _ in node.next_functions:
            if below is None:
                entry[3].append(-1)
                continue
            if id(below) not in at and len(nodes) < _MOST_NODES:
                at[id(below)] = len(nodes)
                nodes.append(below)
            entry[3].append(at.get(id(below), -1))
            if name == "Mul" and None in (one for one, _ in node.next_functions) and _shape(below) != entry[1]:
                entry.append(_sizes(constant(node)))
    return found


def _shape(node: Any) -> list[int] | None:
    """The shape of what an operation gives; an older torch tells it only where the operation keeps what it gave."""
    held = getattr(node, "_input_metadata", None)
    if held is None:
        try:
            return None if runs_a_hook(node, "result") else _sizes(node._saved_result)
        except (AttributeError, RuntimeError):
            return None
    return _sizes(held[0]) if held else None


def _sizes(held: Any) -> list[int] | None:
    try:
        return [int(size) for size in held.shape]
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return None  # nothing, nested, or of sizes that are not known


def _dimension(node: Any) -> int | None:
    dim = getattr(node, "_saved_dim", None)
    if isinstance(dim, tuple) and len(dim) == 1:
        dim = dim[0]
    if not isinstance(dim, int):
        return None
    return dim - 2 * _END if dim >= _END else dim
