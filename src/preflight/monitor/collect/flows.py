"""What a loss is computed by, as a whole: which operation takes what from which, from the loss down to the parameters.

No values are told, and nothing of the graph is kept. An operation that takes parameters is told by their names without
the numbers in them, so that layers that repeat are told once, however many there are; any other one by the nearest
parameters that it comes from. What lays numbers out, copies, casts or drops them is looked through: whether it is
there depends on sizes and settings. It is looked at in the first few backward passes of each place in the code.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from . import factors, words
from .bounded import BoundedLooks
from .dropped import constant
from .graph import name_of
from .plain import Outside, impossible, plain_types, simple
from .unpacking import runs_a_hook
from .variables import Variables

_MOST_NODES = 4000
_MOST_LOOKS = 4
_MOST_PLACES = 16
_MOST_MASKS = 256  # products with something constant
_MOST_TOLD = 600  # of what an operation takes; a graph with more differing ones is not told
_LOOKED_AT = 4096  # numbers of a mask
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
_OPAQUE = ("Compiled", "CheckpointFunction")  # of what they compute the graph tells nothing
_ATTENTION = "ScaledDotProduct"  # which one of torch's computes it depends on dtypes, sizes and the device
_GIVEN, _LEAF = "given", "leaf"
_LEAF_NODE = "AccumulateGrad"
_SCALES = ("Mul", "Div")


class _Operation(NamedTuple):
    """An operation as it is told: a word, what it stands at, and how many operations lie between."""

    word: str
    at: str
    far: int = 0


class Flows:
    """Looks at whole graphs, a few times for each place."""

    def __init__(self, variables: Variables) -> None:
        plain_types(sys.modules["torch"])  # what the quick look at masks compares with
        self._variables = variables
        self._looks = BoundedLooks(_MOST_LOOKS, _MOST_PLACES)
        self._told: dict[str, set[int]] = {}

    def of(self, place: str, loss: Any) -> dict[str, Any] | None:
        """What the operations of a loss take, by the parameters that they stand at, as ``flow``.

        None where it is not looked at, or not told whole; an empty flow where it is as it was told before for this place.
        Beside it stand ``factors``, numbers of the program's own by what they multiply or divide, where there are any, and
        ``weights``: of what is multiplied by any such number, whether that is another one than zero.
        """
        root = getattr(loss, "grad_fn", None)
        if root is None or not self._looks.take(place) or impossible(sys.modules["torch"]):
            return None
        with Outside(sys.modules["torch"]):
            walk = _Walk(self._variables, root)
            found = walk.told()
            more = {"factors": walk.numbers(), "weights": walk.weights()} if found is not None else {}
        if found is None:
            return None
        told = self._told.setdefault(place, set())
        kind = hash(repr((found, more)))
        if kind in told:
            return {"flow": {}}
        told.add(kind)
        return {"flow": found, **{word: one for word, one in more.items() if one}}


class _Walk:
    """One look at a graph."""

    def __init__(self, variables: Variables, root: Any) -> None:
        self._variables = variables
        self._root = root
        self._inner, self._given = root, 0
        self._names: dict[int, str] = {}
        self._passing: dict[int, bool] = {}
        self._operations: dict[int, _Operation] = {}
        self._edges: dict[str, set[str]] = {}
        self._numbers: dict[str, set[float]] = {}
        self._shapes: set[tuple[int, ...]] = set()
        self._weights: dict[str, bool] = {}

    def told(self) -> dict[str, list[str]] | None:
        """What is told of the graph; None where it is too large, or is not seen whole."""
        nodes = _ordered(self._root)
        if nodes is None:
            return None
        self._names = {id(node): _named(node) for node in nodes}
        masks = [node for node in nodes if self._names[id(node)] == "Mul" and _by_a_constant(node)]
        if len(masks) > _MOST_MASKS or any(map(_hidden, masks)):
            return None
        if any(name.startswith(_OPAQUE) for name in self._names.values()):
            return None
        self._names.update((id(node), words.DROPPED) for node in masks if _drops(node))
        ends = self._ends()
        for node in nodes:
            if id(node) in ends:
                continue
            name = self._names[id(node)]
            told = words.of(node, name)
            self._passing[id(node)] = name in words.LAYOUT or (name == "Slice" and not told)
            if not self._passing[id(node)]:
                self._take(node, name, told)
        for child in self._sources(self._inner, self._given):
            self._edges.setdefault(child.at, set()).add(edge := f"loss<{child.word}")
            numbers = {number for number in ends.values() if number is not None}
            if numbers:
                self._numbers.setdefault(f"{child.at}|{edge}", set()).update(numbers)
        if sum(map(len, self._edges.values())) > _MOST_TOLD:
            return None
        return {at: sorted(found) for at, found in sorted(self._edges.items())}

    def numbers(self) -> dict[str, float]:
        """Numbers of the program's own that no size explains, by what they multiply or divide, where that is one number."""
        alone = {where: next(iter(found)) for where, found in self._numbers.items() if len(found) == 1}
        return {where: one for where, one in sorted(alone.items()) if not factors.explained(one, self._shapes)}

    def weights(self) -> dict[str, bool]:
        """Of what a number of the program's own multiplies, whether it is another one than zero anywhere."""
        return dict(sorted(self._weights.items()))

    def _ends(self) -> dict[int, float | None]:
        """The operations that only multiply or divide the whole loss, with the number that a person wrote there.

        How many passes are accumulated, and whether a scaler scales, decides over these; what is below is the loss itself.
        """
        found: dict[int, float | None] = {}
        while True:
            node, name = self._inner, self._names[id(self._inner)]
            below = [(child, number) for child, number in node.next_functions if child is not None]
            scales = name in _SCALES and len(node.next_functions) == 2 and factors.shape_of(node) == ()
            if len(below) != 1 or not (scales or name in words.LAYOUT):
                return found
            found[id(node)] = factors.of(node, name, True) if scales else None
            self._inner, self._given = below[0]

    def _take(self, node: Any, name: str, told: str) -> None:
        """Name an operation, all that it is computed from having been named, and note what it takes."""
        if name == _LEAF_NODE:
            self._operations[id(node)] = _Operation(self._called(node) or _LEAF, _LEAF)
            return
        held: list[str] = []
        inputs: list[tuple[int, _Operation]] = []
        for place, (child, number) in enumerate(node.next_functions):
            if child is None:
                inputs.append((place, _Operation(_GIVEN, "")))
                continue
            parameter = self._parameter(child)
            if parameter:
                held.append(parameter)
            else:
                inputs += [(place, one) for one in self._sources(child, number)]
        held = sorted(set(held))
        word = name + told
        far = 0
        if held:
            word, at = f"{word}{{{','.join(held)}}}", ",".join(held)
        else:
            nearest = min((one for _, one in inputs if one.at), key=lambda one: one.far, default=_Operation("", "", -1))
            at, far = nearest.at, nearest.far + 1
        self._operations[id(node)] = _Operation(word, at, far)
        self._shapes.add(factors.shape_of(node))
        number = factors.of(node, name)
        weight = factors.written(node, name) if name == "Mul" else None
        found = self._edges.setdefault(at, set())
        along = "" if name in words.EITHER_WAY else "[{}]"
        for place, one in inputs:
            if held or one.word != _GIVEN:
                # Of what stands elsewhere it is told where, as the two inputs of an attention to another sequence do.
                where = f" at {one.at}" if one.at not in ("", at) and "{" not in one.word else ""
                found.add(edge := f"{word}{along.format(place)}<{one.word}{where}")
                if number is not None:
                    self._numbers.setdefault(f"{at}|{edge}", set()).add(number)
                if weight is not None:
                    self._weights[f"{at}|{edge}"] = bool(weight) or self._weights.get(f"{at}|{edge}", False)

    def _sources(self, node: Any, number: int) -> Iterator[_Operation]:
        """The operations that a result comes from, what only lays it out looked through."""
        if not self._passing.get(id(node), False):
            yield self._operations.get(id(node), _Operation(_LEAF, ""))
            return
        part = words.part(node, self._names[id(node)], number)
        for child, below in node.next_functions:
            for one in self._sources(child, below) if child is not None else ():
                yield one._replace(word=one.word + part) if part else one

    def _parameter(self, node: Any) -> str | None:
        """The name of the parameter that a result is, laid out in whatever way; None where it is none."""
        while True:
            name = self._names[id(node)]
            if name == _LEAF_NODE:
                return self._called(node)
            below = node.next_functions
            if name not in words.OF_A_PARAMETER or len(below) != 1 or below[0][0] is None:
                return None
            node = below[0][0]

    def _called(self, leaf: Any) -> str | None:
        """What a parameter is called, without the numbers in it; None for another tensor."""
        known = self._variables.of(leaf.variable)
        return _NUMBER.sub("*", known.name) if known is not None and known.kind == "parameter" else None


def _ordered(root: Any) -> list[Any] | None:
    """The operations of a graph, each after all that it is computed from; None where they are too many."""
    nodes: list[Any] = []
    seen = {id(root)}
    open_ = [(root, iter([child for child, _ in root.next_functions if child is not None]))]
    while open_:
        node, children = open_[-1]
        child = next(children, None)
        if child is None:
            open_.pop()
            nodes.append(node)
        elif id(child) not in seen:
            if len(seen) >= _MOST_NODES:
                return None
            seen.add(id(child))
            open_.append((child, iter([one for one, _ in child.next_functions if one is not None])))
    return nodes


def _named(node: Any) -> str:
    name = name_of(node)
    return _ATTENTION if name.startswith(_ATTENTION) else name


def _by_a_constant(node: Any) -> bool:
    return any(child is None for child, _ in node.next_functions)


def _hidden(node: Any) -> bool:
    """Whether a factor is kept packed, as in blocks that are checkpointed: whether it is a mask of dropout is not known."""
    return any(runs_a_hook(node, word) for word in ("self", "other"))


def _drops(node: Any) -> bool:
    """Whether a product is that of dropout on a processor: one factor is of zeros and of one number above one."""
    mask = constant(node)
    if mask is None or not simple(mask) or mask.device.type != "cpu" or not mask.is_floating_point() or not mask.dim():
        return False  # elsewhere the operation has a name of its own, and nothing waits for a device
    if not mask.numel() or not mask.is_contiguous():
        return False
    numbers = mask.detach().view(-1)[:_LOOKED_AT]
    most = float(numbers.max())
    return most > 1 and bool(((numbers == 0) | (numbers == most)).all())
