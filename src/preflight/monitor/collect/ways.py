"""The way of what a table gives for a position to what is said at that position, through the graph of a loss."""

from __future__ import annotations

from typing import Any

from .graph import SOFTMAX, Graph, name_of

_END = 1 << 64
_MOST_NODES = 8000
_FUSED = ("MkldnnRnnLayer", "CudnnRnn")
_LEAST_STEPS = 8
_MIXING = frozenset(
    (
        *("Stack", "Unbind", "Split", "UnsafeSplit", "SplitWithSizes", "Select", "Index", "IndexSelect"),
        *("Gather", "Flip"),
        *("Roll", "ConstantPadNd", "Unfold", "AsStrided", "Scatter", "Expand", "Repeat", "Convolution", "Cumsum"),
        *("Sum", "Mean", "Max", "Amax", "Min", "Amin", "Logsumexp", "Bmm", "Baddbmm", *SOFTMAX),
    )
)
"""Operations whose result at a position may come from another one."""
_MOVING = frozenset(("Transpose", "Permute", "PackPaddedSequence", "Unsqueeze", "Squeeze", "CopySlices"))
"""Operations after which an axis may be another one, or a position."""
_SWAPS = frozenset(("Transpose", "Permute"))


def straight(graph: Graph, table: int, length: int, both: bool = False) -> tuple[bool, bool, bool, bool]:
    """Whether what a table gives for a position goes into what is said at that position, and how.

    With ``both``, ways through recurrent layers that go both ways count as well: what is said then knows what comes after,
    and samples and positions lie as they lay.

    The second is whether a way leads through a recurrent layer that goes forward, as it does where each position
    knows those before it; the third whether the two axes of the table change places on it; the fourth whether it is known of
    each way that they do not.
    """
    goal = graph.nodes[table]
    open_: list[tuple[Any, int, bool, tuple[Any, ...]]] = [
        (child, number, False, ())
        for place, _ in graph.named("NllLoss", "NllLoss2D", "Gather")
        for child, number in graph.nodes[place].next_functions[:1]
    ]
    seen: set[tuple[int, bool]] = set()
    found: list[bool] = []
    through: list[bool] = []  # of the ways through a recurrent layer
    kept = True
    while open_:
        node, number, recurrent, moves = open_.pop()
        if node is goal:
            if not _in_place(moves):
                continue
            (through if recurrent else found).append(_turned(moves))
            kept = kept and {name_of(one) for one in moves} <= _SWAPS and _told(moves) and not _turned(moves)
            continue
        if node is None or (id(node), recurrent) in seen or len(seen) > _MOST_NODES:
            continue
        seen.add((id(node), recurrent))
        kept = kept and (
            node.name()[-1:].isdigit() or name_of(node) == "AccumulateGrad"
        )  # not the program's own function
        moved = (*moves, node) if name_of(node) in _MOVING or _laid_elsewhere(node) else moves
        open_ += [(child, at, recurrent or again, moved) for child, at, again in _onward(node, number, length, both)]
    if through:
        return True, True, through[0], kept
    return bool(found), False, bool(found) and all(found), bool(found) and kept


def _onward(node: Any, number: int, length: int, both: bool) -> list[tuple[Any, int, bool]]:
    """What the result of an operation at a position comes from at that position; and whether that is by recurrence."""
    name, children = name_of(node), node.next_functions
    if name in _FUSED:
        forward = number == 0 and (both or not getattr(node, "_saved_bidirectional", False))
        return [(*children[0], True)] if forward and children else []
    if name == "Stack" and len(children) >= _LEAST_STEPS:
        unbound = _unbound(children[0][0])
        if unbound is None or not (unbound._saved_dim == node._saved_dim or _laid_elsewhere(node)):
            return []  # or it is not told along which axis the steps lie
        return [(*way, True) for way in unbound.next_functions if way[0] is not None]
    if name == "Slice":
        start, end = (getattr(node, f"_saved_{word}", 0) for word in ("start", "end"))
        return [(*child, False) for child in children] if start == 0 and end >= length - 2 else []
    if name == "Cat":
        kinds = {name_of(child) for child, _ in children if child is not None}
        wide = getattr(node, "_saved_dim", 0)
        alongside = (wide >= 2 or wide >= _END >> 1) and (both or not kinds <= {"Stack", *_FUSED})
        return [(*child, False) for child in children] if alongside else []
    if name in _MIXING or name.startswith("ScaledDotProduct"):
        return []
    return [(*child, False) for child in children]


def _in_place(moves: tuple[Any, ...]) -> bool:
    """Whether nothing was written to places that are not told; a packed sequence is written to its own."""
    names = set(map(name_of, moves))
    return "CopySlices" not in names or "PackPaddedSequence" in names


def _turned(moves: tuple[Any, ...]) -> bool:
    """Whether the first two axes of a table lie the other way round after these operations, the last of which comes first."""
    first, second = 0, 1
    for node in reversed(moves):
        name = name_of(node)
        if name == "Stack":
            first, second = second, first
            continue
        packed = getattr(node, "_saved_batch_first", None) if name == "PackPaddedSequence" else False
        if name in ("Unsqueeze", "Squeeze") or packed is None:
            return False  # the axes are counted anew, or it is not told how they were
        if name == "PackPaddedSequence":  # it gives positions first, whatever it is given
            first, second = (second, first) if packed else (first, second)
        if name in ("PackPaddedSequence", "CopySlices"):
            continue
        if name == "Permute":
            order = [one - _END if one >= _END >> 1 else one for one in node._saved_dims]
            order = [one % len(order) for one in order]
            if max(first, second) >= len(order):
                return False
            first, second = order.index(first), order.index(second)
            continue
        one, other = (getattr(node, f"_saved_dim{number}") for number in (0, 1))
        if max(one, other) >= _END >> 1:
            if {one - _END, other - _END} == {-1, -2}:
                continue  # the last two axes: of one that has features, not both of the first ones
            return False  # how many axes there are is not told
        swap = {one: other, other: one}
        first, second = swap.get(first, first), swap.get(second, second)
    return first > second


def _told(moves: tuple[Any, ...]) -> bool:
    """Whether the axes that are swapped on a way are counted from the front, so that it is known which these are."""
    return all(
        max(node._saved_dim0, node._saved_dim1) < _END >> 1 for node in moves if name_of(node) == "Transpose"
    ) and all(len(node._saved_dims) > 2 for node in moves if name_of(node) == "Permute")


def _laid_elsewhere(node: Any) -> bool:
    """Whether the steps of a recurrent layer that was written out lay on one of the first two axes and are stacked on the other."""
    if name_of(node) != "Stack" or len(node.next_functions) < _LEAST_STEPS:
        return False
    unbound = _unbound(node.next_functions[0][0])
    return unbound is not None and {unbound._saved_dim, node._saved_dim} == {0, 1}


def _unbound(node: Any) -> Any:
    """What takes apart what a recurrent layer that was written out is given for all steps, from what it gives at the first."""
    open_, seen = [node], set[int]()
    while open_:
        one = open_.pop()
        if one is None or id(one) in seen or len(seen) > 64:
            continue
        seen.add(id(one))
        for child, number in one.next_functions:
            if child is not None and name_of(child) == "Unbind":
                if number == 0:
                    return child
            elif child is not None and (name_of(child) == "UnsafeSplit" or name_of(child) not in _MIXING):
                open_.append(child)
    return None
