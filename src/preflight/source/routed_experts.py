"""Experts that a script writes by hand: equal parts of a block, each of which a router gives some of the tokens."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from preflight.source.layers import Leaf, Network
from preflight.source.trace import comes_from_any
from preflight.source.values import Obj, Value, plain, settle

if TYPE_CHECKING:
    from preflight.source.reading import Reading

# Where the k of a choice stands among its arguments; a choice of the largest alone takes one.
_CHOICES = {"torch.topk": 1, ".topk": 0, "torch.argmax": None, ".argmax": None}
_NEAR = 40
_SAME_ROWS = (".to", ".float", ".half", ".bfloat16", ".contiguous", ".reshape", ".view", ".type_as")
_PICKS = {".index_select": 1, "torch.index_select": 2}


class Routed:
    """The experts of a network.

    Attributes:
        leaves: Their layers.
        holders: The path of each list of them: one for a block that has experts.
        number: How many a list has.
        per_token: How many of them a token passes; None where that is not known.
    """

    def __init__(self, leaves: list[Leaf], holders: list[str], number: int, per_token: int | None) -> None:
        """Keep the parts."""
        self.leaves = leaves
        self.holders = holders
        self.number = number
        self.per_token = per_token


def routed_experts(reading: Reading, network: Network) -> Routed | None:
    """The parts of a network that are given only the rows that a choice of each token picks; None where there are none.

    Parts of a list that are all given the whole of a block's input are no experts in this sense: each keeps all of it.
    """
    inner: dict[int, str] = {}
    chosen: set[int | None] = set()
    for event in reading.trace.calls("()"):
        part = settle(event.receiver) if event.receiver is not None else None
        if event.context.shadow or not event.args or not isinstance(part, Obj) or not network.holds(part):
            continue
        choice = _choice_of(event.args[0])
        if choice is not None:
            chosen.add(_number(choice))
            for leaf in Network(reading, part).leaves:
                inner.setdefault(id(leaf.obj), leaf.path)  # its own layers are given the same rows, later
    leaves = [leaf for leaf in network.leaves if id(leaf.obj) in inner]
    if not leaves or any(leaf.repeat != 1 for leaf in leaves):
        return None
    parts = {leaf.path.removesuffix(inner[id(leaf.obj)]).rstrip(".") for leaf in leaves}
    holders = Counter(part.rpartition(".")[0] for part in parts if part.rpartition(".")[2].isdecimal())
    number = max(holders.values(), default=0)
    if number < 2 or len(set(holders.values())) > 1 or holders.total() != len(parts):
        return None
    per_token = chosen.pop() if len(chosen) == 1 else None
    return Routed(leaves, list(holders), number, per_token if per_token is None or per_token <= number else None)


def _choice_of(given: Value) -> Obj | None:
    """The choice that picks the rows which a part is given: ``expert(flat[rows])``; None where it is given all."""
    value = settle(given)
    while isinstance(value, Obj) and value.kind == "call" and value.name in _SAME_ROWS and value.receiver is not None:
        value = settle(value.receiver)
    if not isinstance(value, Obj):
        return None
    index = None
    if value.kind == "item":
        index = value.args[0] if value.args else None
    elif value.name in _PICKS:
        index = value.argument(_PICKS[value.name], "index")
    return comes_from_any(index, _NEAR, tuple(_CHOICES))


def _number(choice: Obj) -> int | None:
    """How many a choice takes of each token; None where that is not known."""
    place = _CHOICES[choice.name]
    found = plain(choice.argument(place, "k")) if place is not None else 1
    return found if isinstance(found, int) and found > 0 else None
