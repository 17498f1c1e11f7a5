"""Which layers of a network are frozen: their parameters get no gradient, and what is below them keeps nothing."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from preflight.source.evaluate.library.methods import is_module
from preflight.source.layers import Leaf, Network
from preflight.source.name_tests import name_test
from preflight.source.values import Class, Known, Module, Obj, Value, settle

if TYPE_CHECKING:
    from preflight.source.reading import Reading
    from preflight.source.trace import Context

LISTINGS = (".parameters", ".named_parameters")
HANDED_ON = ("builtins.list", "builtins.tuple", "builtins.iter", "builtins.enumerate", "itertools.chain")
BY_CALL = {
    ".freeze_encoder": "encoder",
    ".freeze_feature_encoder": "sound",
    ".freeze_feature_extractor": "sound",
}
"""Methods of transformers that freeze a part, and which."""
OTHER_WAYS = (
    "peft.get_peft_model",
    "peft.prepare_model_for_kbit_training",
    ".freeze",
    ".freeze_base_model",
    ".unfreeze",
)
"""Calls that freeze, thaw or add parameters in their own way."""


class Frozen:
    """The frozen layers of a network.

    Attributes:
        leaves: Identities of the layers that are surely frozen.
        parameters: How many parameters they have.
        certain: Whether no other parameter may be frozen.
    """

    def __init__(self, leaves: frozenset[int] = frozenset(), parameters: int = 0, certain: bool = True) -> None:
        """Keep the parts."""
        self.leaves = leaves
        self.parameters = parameters
        self.certain = certain


class Change:
    """A place that freezes or thaws.

    Attributes:
        number: Its place in the order of things.
        target: The module, or the parameter that stands for all of a loop.
        wanted: Whether gradients are wanted from here on; None where it is not plain.
        written: What was written in the place of a plain truth.
        context: Where it is.
    """

    def __init__(
        self, number: int, target: Value, wanted: bool | None, written: ast.expr | None, context: Context
    ) -> None:
        self.number = number
        self.target = target
        self.wanted = wanted
        self.written = written
        self.context = context

    def for_name(self, name: str) -> tuple[bool, bool] | None:
        """Whether a parameter of this name is meant, and whether it then wants gradients; None where that is not known."""
        variable = _variable(self.context)
        for frame in self.context.frames():
            if frame.kind != "if" or frame.taken is not None:
                continue
            test = getattr(frame.node, "test", None)
            found = name_test(test, variable, name) if variable is not None and test is not None else None
            if found is None:
                return None
            if found is not frame.polarity:
                return False, False
        wanted = self.wanted
        if wanted is None and self.written is not None and variable is not None:
            wanted = name_test(self.written, variable, name)
        return (True, wanted) if wanted is not None else None


def frozen_layers(reading: Reading, network: Network, until: int | None = None) -> Frozen:
    """Follow what a script freezes and thaws, in its order.

    Args:
        reading: The script.
        network: The layers of the network that is trained.
        until: The place in the order of things up to which it is followed; to the end without one.
    """
    frozen: set[int] = set()
    certain = not reading.trace.calls(*OTHER_WAYS, *BY_CALL) and not _exchanges_classes(reading)
    for change in changes(reading):
        if change.context.shadow:
            continue
        if until is not None and change.number > until:
            break
        owner = owner_of(change.target)
        if owner is None:
            certain = False
            continue
        if owner.kind == "copy" and owner is not network.model:
            # A copy has parameters of its own, and its layers are written down as those of the original.
            certain = certain and not network.holds(owner)
            continue
        for index, path in _reached(network, Network(reading, owner)):
            leaf = network.leaves[index]
            whole = leaf.obj.drawn_for or leaf.obj
            if not leaf.count or whole.number > change.number:
                continue  # without parameters, or put there later
            told = {change.for_name(name) for name in _names(leaf, path)}
            if len(told) > 1 or None in told:
                certain = False
                continue
            meant, wanted = next(iter(told)) or (False, False)
            if meant and wanted:
                frozen.discard(index)
            elif meant:
                frozen.add(index)
    counted = sum(network.leaves[index].count * network.leaves[index].repeat for index in frozen)
    trained = {id(leaf.obj) for index, leaf in enumerate(network.leaves) if index not in frozen}
    return Frozen(frozenset(id(network.leaves[index].obj) for index in frozen) - trained, counted, certain)


def _reached(network: Network, part: Network) -> Iterator[tuple[int, str]]:
    """The layers of a network that a part of it holds: the place in the network's list, and the name within the part.

    The layers of copies, as of blocks that a comprehension makes, are written down as those of the original: they are
    told apart by their order, in which the original comes first.
    """
    names: dict[int, list[str]] = {}
    for leaf in part.leaves:
        names.setdefault(id(leaf.obj), []).append(leaf.path)
    met: Counter[int] = Counter()
    for index, leaf in enumerate(network.leaves):
        paths = names.get(id(leaf.obj), ())
        if met[id(leaf.obj)] < len(paths):
            yield index, paths[met[id(leaf.obj)]]
        met[id(leaf.obj)] += 1


def _exchanges_classes(reading: Reading) -> bool:
    """Whether a class of a module is replaced by another, as some do for adapters: a network may then have other layers."""
    return any(
        isinstance(settle(store.target), Module) and isinstance(settle(store.value), Class)
        for store in reading.trace.stores
    )


def _names(leaf: Leaf, path: str) -> tuple[str, ...]:
    if leaf.obj.name.endswith("Parameter"):
        return (path,)
    return f"{path}.weight", f"{path}.bias"


def _variable(context: Context) -> str | None:
    """The variable that holds the name, in the nearest loop over ``named_parameters()``."""
    for frame in context.frames():
        target = getattr(frame.node, "target", None)
        if frame.kind == "loop" and isinstance(target, ast.Tuple):
            first = target.elts[0]
            return first.id if isinstance(first, ast.Name) else None
    return None


def changes(reading: Reading) -> list[Change]:
    """What is frozen or thawed, in order."""
    found: list[Change] = []
    for event in reading.trace.calls(".requires_grad_"):
        if event.receiver is not None:
            given = event.argument(0, "requires_grad")
            args = getattr(event.node, "args", None)
            wanted = _truth(given) if given is not None else True
            found.append(Change(event.number, event.receiver, wanted, args[0] if args else None, event.context))
    written = (store for store in reading.trace.stores if store.name == "requires_grad")
    found += [
        Change(store.number, store.target, _truth(store.value), getattr(store.node, "value", None), store.context)
        for store in written
    ]
    return sorted(found, key=lambda change: change.number)


def _truth(value: Value) -> bool | None:
    held = settle(value)
    return held.value if isinstance(held, Known) and isinstance(held.value, bool) else None


def owner_of(target: Value) -> Obj | None:
    """The module whose parameters are all meant: itself, or the one whose parameters a loop goes through."""
    value = settle(target)
    for _ in range(8):
        if not isinstance(value, Obj):
            return None
        if is_module(value):
            return value
        inner = value.receiver if value.kind == "item" or value.name in LISTINGS else None
        if value.name in HANDED_ON and len(value.args) == 1:
            inner = value.args[0]
        if inner is None:
            return None
        value = settle(inner)
    return None
