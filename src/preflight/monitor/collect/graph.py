"""The graph that leads to a loss: its operations by name, what they hold, and what their inputs come from."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import Any

from .dropped import drops
from .unpacking import runs_a_hook

_MOST_NODES = 8000
_MOST_WRITTEN = 8  # attentions that are written out and looked at
_MOST_USES = 64  # operations on the way from the weights of an attention to what is done with them
_END = 1 << 64
_BOUNDS = ("_saved_start", "_saved_end", "_saved_step")  # a function of the program may be called Slice, and has none
_WHOLE = (0, (1 << 63) - 1, 1)  # those of a slice that has no end
_MASKED = -1e4
"""What is added to scores of attention that are not to count is below this."""
_TO_SCORES = (
    *("Add", "Sub", "Mul", "Div", "MaskedFill", "Where", "ToCopy", "View", "UnsafeView", "Expand", "Clone"),
    *("ReshapeAlias", "Unsqueeze", "Squeeze", "NativeDropout", "Tanh"),
)
"""Operations between the products of queries and keys and the softmax over them."""
_FILLS = ("MaskedFill", "Where")
_PRODUCTS = ("Bmm", "Baddbmm", "Mm")
SOFTMAX = ("Softmax", "SafeSoftmax")  # the second where fused attention falls back, as it does for dropout
_KEEPING = ("NativeDropout", "Mul", "Clone", "Expand", "View", "UnsafeView", "ReshapeAlias", "ToCopy")
"""Operations that leave the weights of an attention along their axes."""
ADDING = (
    *("Add", "Sub", "Rsub", "Mul", "Div", "Neg", "Sum", "Mean", "Stack", "Cat"),
    *("View", "Squeeze", "Unsqueeze", "ToCopy"),
)
"""Operations that make one loss of several."""
_LAYING = ("Unsqueeze", "Permute", "Transpose")
_VIEWS = ("View", "UnsafeView", "ReshapeAlias")
_ELEMENTS = (*_VIEWS, "Squeeze", "Unsqueeze", "Clone", "Neg", "ToCopy", "Mul", "Div")
"""Operations that leave each element what it was made from."""


class Graph:
    """The operations of a graph, each after all that it is computed from."""

    def __init__(self, root: Any) -> None:
        self.nodes: list[Any] = []
        self.names: list[str] = []
        self.below: list[list[int]] = []
        self._walk(root)

    def _walk(self, root: Any) -> None:
        at: dict[int, int] = {}
        held = [root]  # so that what stands for an operation stays the same while it is looked at
        open_: list[tuple[Any, Iterator[Any], list[Any]]] = [(root, _children(root), [])]
        waiting = {id(root)}
        while open_:
            node, children, found = open_[-1]
            child = next(children, None)
            if child is None:
                open_.pop()
                at[id(node)] = len(self.nodes)
                self.nodes.append(node)
                self.names.append(name_of(node))
                self.below.append([at[id(one)] for one in found if id(one) in at])
                continue
            found.append(child)
            if id(child) not in waiting and len(held) < _MOST_NODES:
                waiting.add(id(child))
                held.append(child)
                open_.append((child, _children(child), []))

    def named(self, *names: str) -> Iterator[tuple[int, str]]:
        """The places of operations of these names."""
        return ((place, name) for place, name in enumerate(self.names) if name in names)

    def held(self, place: int, word: str) -> Any:
        """A tensor that an operation holds, where it is a plain one whose numbers can be compared."""
        return self.look(place, word)[0]

    def look(self, place: int, word: str) -> tuple[Any, bool]:
        """A tensor that an operation holds, as ``held`` gives it, and whether it holds one that cannot be read."""
        node = self.nodes[place]
        if runs_a_hook(node, word.removeprefix("_saved_")):
            return None, True
        try:
            value = getattr(node, word, None)
        except RuntimeError:
            return None, True  # let go of already
        if value is None:
            return None, False
        if type(value).__name__ not in ("Tensor", "Parameter") or not value.numel():
            return None, True
        plain = value.device.type in ("cpu", "cuda") and value.layout is _strided(value)
        return (value, False) if plain else (None, True)

    def number(self, place: int, word: str, otherwise: int) -> int:
        """A whole number that an operation holds; one below zero is kept as a number without a sign."""
        value = getattr(self.nodes[place], word, None)
        if not isinstance(value, int):
            return otherwise
        return value - _END if value >= _END >> 1 else value

    def attention(self, table: int) -> Attention | None:
        """The first attention whose keys come from a table and whose queries do."""
        reach = [False] * len(self.nodes)
        reach[table] = True
        for place in range(len(self.nodes)):
            reach[place] = reach[place] or any(reach[one] for one in self.below[place])
            if not reach[place]:
                continue
            name = self.names[place]
            if name.startswith("ScaledDotProduct"):
                inputs = _children_of(self.nodes[place], 2)
                product = place
            elif name in SOFTMAX:
                product = self.product(place)
                inputs = _children_of(self.nodes[product], None)[-2:] if product >= 0 else []
            else:
                continue
            if len(inputs) == 2 and all(self._reached(one, product, reach) for one in inputs):
                return Attention(self, place)
        return None

    def crosswise(self, square: bool = False) -> float | None:
        """Whether weights of an attention sum to one over another axis than that over which values are added up with them.

        None where no attention is written out so that it can be told; ``square`` asks only for those with as many queries
        as keys, whose values are added up over the last axis: queries that are fewer, as slots are, may compete for what
        they are given, and what is spread over a graph goes the other way. One use over the right axis is enough.
        """
        told = None
        for place, _ in islice(self.named(*SOFTMAX), _MOST_WRITTEN):
            result = self.held(place, "_saved_result")
            product = self.product(place, ("Permute", "Transpose"))
            if result is None or result.dim() < 3 or product < 0 or self.names[product] == "Mm":
                continue
            as_many = result.shape[-1] == result.shape[-2] > 1
            if square and not as_many:
                continue
            over, last = self._summed(place, result), result.dim() - 1
            axis = self.number(place, "_saved_dim", -1) % result.dim()
            if axis in over:
                told = 0.0 if axis == last else told
            elif over and (over[0] == last or (as_many and not square and {*over} == {last - 1})):
                return 1.0
        return told

    def _summed(self, place: int, result: Any) -> list[int]:
        """Over which axes of the result of a softmax values are added up with it, for each use; -1 where that is not told.

        A view may lay a single column out as a row: what the product is given must be as wide as the result. What einsum
        does lays axes out for a product before it views them as three: of these the last ones are those of the product.
        Multiplied with something that is learnt, as with weights over the other axis where two must choose each other, they
        are no weights of their own any more.
        """
        found: list[int] = []
        axes, viewed = list(range(result.dim())), False
        open_ = [(above, place, axes, viewed) for above in reversed(self._above.get(place, ()))]
        for _ in range(_MOST_USES):
            if not open_:
                break
            above, at, axes, viewed = open_.pop()
            name = self.names[above]
            if name in _LAYING and not viewed and self.nodes[above].name()[-1:].isdigit():  # torch numbers its own
                axes = _laid_out(self.nodes[above], name, axes)
            elif name in _KEEPING and (name != "Mul" or len(self.below[above]) == 1):
                viewed = viewed or name in _VIEWS
            else:
                found.append(self._gone_over(above, at, axes, result))
                continue
            open_ += [(more, above, axes, viewed) for more in reversed(self._above.get(above, ()))]
        return found

    def _gone_over(self, product: int, weights: int, axes: list[int], result: Any) -> int:
        """Over which axis of the result of a softmax a product goes that is given it in another layout; -1 if unknown."""
        sides = [child is self.nodes[weights] for child, _ in self.nodes[product].next_functions]
        known = [one for one in axes if one >= 0][-2:]
        if self.names[product] not in ("Bmm", "Mm") or sides.count(True) != 1 or len(known) < 2:
            return -1
        left = sides[0]
        given = self.held(product, "_saved_self" if left else "_saved_mat2")
        sizes = [result.shape[one] for one in known]
        if given is None or given.shape[-1] != sizes[1] or (not left and given.shape[-2] != sizes[0]):
            return -1
        return known[1] if left else known[0]

    @cached_property
    def _above(self) -> dict[int, list[int]]:
        """For each operation those that are given what it gave, in order."""
        found: dict[int, list[int]] = {}
        for place, below in enumerate(self.below):
            for one in {*below}:
                found.setdefault(one, []).append(place)
        return found

    def _reached(self, child: Any, product: int, reach: list[bool]) -> bool:
        return any(reach[one] and self.nodes[one] is child for one in self.below[product])

    def product(self, place: int, more: tuple[str, ...] = ()) -> int:
        """The product of queries and keys that a softmax goes over, -1 where there is none."""
        return next((one for one in self._to_product(place, more) if self.names[one] in _PRODUCTS), -1)

    def _to_product(self, place: int, more: tuple[str, ...] = ()) -> Iterator[int]:
        """What lies below a softmax, down to the product of queries and keys; ``more`` are operations on the way."""
        for _ in range(12):
            below = [one for one in self.below[place] if self.names[one] in (*_TO_SCORES, *_PRODUCTS, *more)]
            if not below:
                return
            place = below[0]
            yield place
            if self.names[place] in _PRODUCTS:
                return

    def masks(self, place: int) -> bool:
        """Whether a softmax goes over scores that something constant was added to, or some of which were filled in."""
        return any(
            self.names[one] in _FILLS or (self.names[one] == "Add" and len(self.below[one]) == 1)
            for one in self._to_product(place)
        )

    def weighed(self, place: int) -> bool:
        """Whether the scores of a softmax, or the weights that it gives, are multiplied by something constant, as by a mask."""
        return any(self._multiplies(one) for one in (*self._to_product(place), *self._kept(place)))

    def multiplied(self, place: int) -> tuple[Any, bool]:
        """What the elements of a result are multiplied with before they are added up, and whether that is known.

        Nothing where they are added up as they are; the factor where it is something constant.
        """
        for above in range(place + 1, len(self.nodes)):
            if place not in self.below[above]:
                continue
            name = self.names[above]
            if name in ("Mean", "Sum"):
                return None, True
            if name not in _ELEMENTS or len(self.below[above]) != 1:
                return None, False
            if name == "Mul":
                factors = [self.look(above, word) for word in ("_saved_self", "_saved_other")]
                if any(unreadable for _, unreadable in factors):
                    return None, False
                held = next((one for one, _ in factors if one is not None and one.numel() > 1), None)
                if held is not None:
                    return held, True
            place = above
        return None, True

    def _kept(self, place: int) -> Iterator[int]:
        """What is done to the weights of a softmax before values are added up with them."""
        for above in range(place + 1, len(self.nodes)):
            if place in self.below[above]:
                if self.names[above] not in _KEEPING:
                    return
                place = above
                yield place

    def _multiplies(self, place: int) -> bool:
        node = self.nodes[place]
        if self.names[place] != "Mul" or len(self.below[place]) != 1 or drops(node):
            return False
        factors = [self.look(place, word) for word in ("_saved_self", "_saved_other")]
        return any(unreadable or (held is not None and held.numel() > 1) for held, unreadable in factors)


class Attention:
    """What one attention lets through; of several heads the first is looked at."""

    def __init__(self, graph: Graph, place: int) -> None:
        self._causal = False
        self._mask: Any = None
        self._bare = False  # whether it is known to have no mask
        self._sizes: list[tuple[int, int]] = []  # of queries and of keys: the first dimension, and the length
        self._scores = graph.names[place] in SOFTMAX
        self._given = self._scores and graph.masks(place)
        self._weighed = self._scores and graph.weighed(place)
        if self._scores:
            self._mask = graph.held(place, "_saved_result")
            return
        self._causal = bool(getattr(graph.nodes[place], "_saved_is_causal", False))
        looks = [graph.look(place, word) for word in ("_saved_attn_mask", "_saved_attn_bias", "_saved_bias")]
        self._mask = next((held for held, _ in looks if held is not None), None)
        self._bare = self._mask is None and not any(unreadable for _, unreadable in looks)
        held = [graph.held(place, word) for word in ("_saved_query", "_saved_key")]
        self._sizes = [(one.shape[0], one.shape[-2]) for one in held if one is not None and one.dim() > 2]

    @property
    def masked(self) -> bool:
        """Whether it was given a mask: one that can be read, or one that can be seen in the weights."""
        return self._mask is not None and (not self._scores or self._given)

    @property
    def bare(self) -> bool:
        """Whether it is known to have no mask, and lets each position see all others."""
        if self._scores:
            return self._mask is not None and not self._given and not self._weighed
        return self._bare and not self._causal

    def _goes_over(self, batch: int, length: int) -> bool:
        """Whether queries and keys are known to be the positions of these sequences."""
        return len(self._sizes) == 2 and all(one % batch == 0 and size == length for one, size in self._sizes)

    def _laid(self, batch: int, length: int) -> Any:
        """The mask, or the weights, as one matrix for each sequence; None where they do not fit."""
        mask = self._mask
        if mask is None or mask.shape[-1] != length or mask.dim() < 2 or mask.dim() > 4:
            return None
        if mask.dim() == 3:
            if mask.shape[0] % batch:
                return None
            mask = mask.unflatten(0, (batch, -1))
        if mask.dim() == 4:
            mask = mask[:, 0]
        if mask.dim() == 2:
            mask = mask[None]
        if mask.shape[0] not in (1, batch) or mask.shape[1] not in (1, length):
            return None
        return mask.expand(batch, length, length)

    def _through(self, torch: Any, found: Any) -> Any:
        if self._scores:
            return found > 0
        return found if found.dtype is torch.bool else found > _MASKED

    def ahead(self, torch: Any, ids: Any) -> Any:
        """For each position of each sequence whether it sees the next one; None where that is not known."""
        batch, length = ids.shape
        if self._causal or self._bare:
            if not self._goes_over(batch, length):
                return None
            return torch.full((batch, length - 1), not self._causal, dtype=torch.bool, device=ids.device)
        laid = self._laid(batch, length)
        return None if laid is None else self._through(torch, laid.diagonal(1, 1, 2))

    def row(self, torch: Any, positions: Any, length: int) -> Any:
        """For one position of each sequence which ones it sees; None where that is not known."""
        batch = len(positions)
        if self._causal or self._bare:
            if not self._goes_over(batch, length):
                return None
            if self._bare and not self._causal:
                return torch.ones((batch, length), dtype=torch.bool, device=positions.device)
            return torch.arange(length, device=positions.device)[None] <= positions[:, None]
        laid = self._laid(batch, length)
        if laid is None:
            return None
        return self._through(torch, laid[torch.arange(batch, device=positions.device), positions])


def _laid_out(node: Any, name: str, axes: list[int]) -> list[int]:
    """Axes after one was put in, which is -1, or after they were put into another order; -1 for unknown ones."""
    if name == "Permute":
        order = [one - _END if one >= _END >> 1 else one for one in node._saved_dims]
        return [axes[one] for one in order] if len(order) == len(axes) else [-1] * len(order)
    if name == "Transpose":
        one, other = (at - _END if at >= _END >> 1 else at for at in (node._saved_dim0, node._saved_dim1))
        turned = list(axes)
        turned[one], turned[other] = axes[other], axes[one]
        return turned
    at = node._saved_dim
    at = (at - _END if at >= _END >> 1 else at) % (len(axes) + 1)
    return [*axes[:at], -1, *axes[at:]]


def name_of(node: Any) -> str:
    """``Softmax`` of ``SoftmaxBackward0``."""
    word = str(node.name()).rpartition("::")[2]
    return word.rstrip("0123456789").removesuffix("Backward")


def _children(node: Any) -> Iterator[Any]:
    return (_sliced(child) for child, _ in node.next_functions if child is not None)


def _sliced(node: Any) -> Any:
    """What a slice that takes all of it is made from, which an older torch makes of ``x[:, None]``; else the operation."""
    while name_of(node) == "Slice" and tuple(getattr(node, word, None) for word in _BOUNDS) == _WHOLE:
        below = node.next_functions[0][0]
        if below is None:
            break
        node = below
    return node


def _children_of(node: Any, count: int | None) -> list[Any]:
    return [_sliced(child) for child, _ in node.next_functions[:count] if child is not None]


def _strided(value: Any) -> Any:
    return sys.modules["torch"].strided
