"""Which parameters an optimizer holds, and which modules a module consists of."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property, lru_cache

from preflight.source.evaluate.library.methods import is_module
from preflight.source.evaluate.library.torch import wrapped
from preflight.source.reading import Reading
from preflight.source.trace import Event, provenance
from preflight.source.values import Choice, Dict, Func, Known, Obj, Phi, Seq, Value, options_of, settle

_LISTINGS = frozenset({".parameters", ".named_parameters", ".trainable_parameters"})
_HAND_ON = frozenset(
    [
        "builtins.list",
        "builtins.tuple",
        "builtins.iter",
        "builtins.set",
        "builtins.sorted",
        "builtins.reversed",
        "builtins.dict",
        "itertools.chain",
        "itertools.chain.from_iterable",
        ".values",
        ".items",
        ".copy",
    ]
)
_PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})
_ITSELF = frozenset(
    [".to", ".cuda", ".cpu", ".half", ".float", ".double", ".bfloat16", ".train", ".eval", ".requires_grad_"]
)


class Held:
    """Parameters that come from one owner.

    Attributes:
        owner: The module, or the parameter itself.
        amount: ``all`` of them, the ``trainable`` ones, or ``some`` that a test chose.
        group: Number of the parameter group.
    """

    __slots__ = ("amount", "group", "owner")

    def __init__(self, owner: Obj, amount: str, group: int) -> None:
        """Keep the parts."""
        self.owner = owner
        self.amount = amount
        self.group = group


class Holding:
    """What an optimizer (or a list of parameters) holds.

    Attributes:
        parts: By owner.
        complete: Whether nothing else can be in it.
        groups: Number of parameter groups.
    """

    def __init__(self) -> None:
        """Start empty."""
        self.parts: list[Held] = []
        self.complete = True
        self.groups = 1

    def covers(self, thing: Obj) -> bool:
        """Whether a module or parameter may have parameters in here."""
        return any(i in self.members for i in parts_of(thing))

    @property
    def firm(self) -> bool:
        """Whether it is complete, and no owner is another module in disguise."""
        return self.complete and bool(self.parts) and all(_made_here(p.owner) for p in self.parts)

    @cached_property
    def members(self) -> frozenset[int]:
        """Identities of the owners and of everything they consist of; asked for once all parts are in."""
        return frozenset(i for part in self.parts for i in parts_of(part.owner))


def holding_of(reading: Reading, optimizer: Obj) -> Holding:
    """What an optimizer holds, groups added later included."""
    cache: dict[int, Holding] = reading.__dict__.setdefault("_holdings", {})
    found = cache.get(id(optimizer))
    if found is None:
        found = cache[id(optimizer)] = Holding()
        given = (
            optimizer.argument(0, "params")
            or optimizer.kwargs.get("model_params")
            or optimizer.kwargs.get("parameters")
        )
        if optimizer.name.startswith("timm.optim.create_optimizer"):
            given = optimizer.argument(
                0 if optimizer.name.endswith("_v2") else 1, "model_or_params"
            ) or optimizer.kwargs.get("model")
        if given is None or optimizer.open_args:
            found.complete = False
        if given is not None:
            _groups(found, given)
        for event in reading.trace.on(optimizer, "add_param_group"):
            for value in (*event.args, *event.kwargs.values()):
                found.groups += 1
                _walk(found, value, "all", found.groups - 1, 0)
    return found


def listed(value: Value | None) -> Holding:
    """The parameters in a value that is given where parameters are wanted."""
    found = Holding()
    if value is None:
        found.complete = False
    else:
        _groups(found, value)
    return found


def _groups(found: Holding, given: Value) -> None:
    base = settle(given)
    if isinstance(base, Seq) and base.items and all(isinstance(settle(i), Dict) for i in base.items):
        found.groups = len(base.items)
        found.complete = not base.open
        for number, item in enumerate(base.items):
            _walk(found, item, "all", number, 0)
        return
    _walk(found, given, "all", 0, 0)


def _walk(found: Holding, value: Value, amount: str, group: int, depth: int) -> None:
    if depth > 14:
        found.complete = False
        return
    if isinstance(value, (Choice, Phi)):
        options = [o for o in options_of(value, limit=6) if not isinstance(o, Known)]
        for option in options:
            _walk(found, option, "some" if len(options) > 1 else amount, group, depth + 1)
        return
    if isinstance(value, Seq):
        inner = _weaker(amount, _chosen(value)) if value.open or value.kind == "generator" else amount
        if value.open and not value.items:
            found.complete = False
        for item in value.items:
            _walk(found, item, inner, group, depth + 1)
        return
    if isinstance(value, Dict):
        entries = [value.entries["params"]] if "params" in value.entries else list(value.entries.values())
        if value.open and "params" not in value.entries:
            amount = "some"
        for entry in entries:
            _walk(found, entry, amount, group, depth + 1)
        found.complete = found.complete and bool(entries)
        return
    if isinstance(value, Obj):
        _object(found, value, amount, group, depth)
        return
    found.complete = found.complete and isinstance(value, Known)


def _object(found: Holding, value: Obj, amount: str, group: int, depth: int) -> None:
    if value.name in _LISTINGS and value.receiver is not None:
        owners = [_moved(o) for o in options_of(value.receiver, limit=6)]
        things = [o for o in owners if isinstance(o, Obj)]
        found.complete = found.complete and len(things) == len(owners) and bool(things)
        for owner in things:
            found.parts.append(Held(owner, "some" if len(things) > 1 else amount, group))
    elif value.name in _HAND_ON:
        sources = value.args if value.args else [value.receiver] if value.receiver is not None else []
        found.complete = found.complete and not value.open_args
        for source in sources:
            _walk(found, source, amount, group, depth + 1)
    elif value.name == "builtins.filter" and len(value.args) == 2:
        _walk(found, value.args[1], _weaker(amount, _test_of(value.args[0])), group, depth + 1)
    elif value.kind == "op" and value.name == "+":
        for source in value.args:
            _walk(found, source, amount, group, depth + 1)
    elif value.name in _PARAMETERS or is_module(value):
        found.parts.append(Held(value, amount, group))
    elif value.kind == "item" and value.receiver is not None:
        index = value.args[0] if value.args else None
        _walk(found, value.receiver, amount if index is None or _second(value) else "some", group, depth + 1)
    elif value.kind == "attr" and isinstance(value.receiver, Value) and is_module(settle(value.receiver)):
        found.parts.append(Held(value, "some", group))
    elif value.kind in {"call", "copy"} and value.name.startswith(("torch.", ".")):
        found.parts.append(Held(value, amount, group))  # a plain tensor that requires grad
    else:
        found.complete = False


def _moved(value: Value) -> Value | None:
    """The module whose parameters are asked for: moving or casting a module gives the module itself."""
    current = wrapped(value)
    while isinstance(current, Obj) and current.name in _ITSELF and current.receiver is not None:
        inner = wrapped(current.receiver)
        if not isinstance(inner, Obj):
            break
        current = inner
    return current


def _second(value: Obj) -> bool:
    """The parameter of a pair (name, parameter)."""
    index = settle(value.args[0])
    inner = settle(value.receiver) if value.receiver is not None else None
    return isinstance(index, Known) and index.value == 1 and isinstance(inner, Obj) and inner.kind == "item"


def _weaker(first: str, second: str) -> str:
    order = ("all", "trainable", "some")
    return max(first, second, key=order.index)


def _chosen(value: Seq) -> str:
    """What a comprehension keeps: all, those that require grad, or some; a list that was built in a loop keeps some."""
    node = value.site.node if value.site is not None else None
    if not isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
        return "some"
    tests = [t for g in node.generators for t in g.ifs]
    if not tests:
        return "all" if isinstance(node.elt, ast.Name) else "some"  # p for p in ..., not table[name] for name in ...
    return "trainable" if all(isinstance(t, ast.Attribute) and t.attr == "requires_grad" for t in tests) else "some"


def _test_of(value: Value) -> str:
    base = settle(value)
    if isinstance(base, Func) and isinstance(base.node, ast.Lambda):
        body = base.node.body
        return "trainable" if isinstance(body, ast.Attribute) and body.attr == "requires_grad" else "some"
    return "some"


@lru_cache(maxsize=32)
def parts_of(module: Obj, exact: bool = False) -> dict[int, Obj]:
    """A module and everything it holds, by identity; the same answer for all rules, which must not change it.

    Args:
        module: The module.
        exact: Leave out what may be another thing at run time: parts of copies, and what plain lists hold.
    """
    found: dict[int, Obj] = {}
    stack: list[Value] = [module]
    while stack and len(found) < 4000:
        value = stack.pop()
        if isinstance(value, (Choice, Phi)):
            stack.extend(() if exact else options_of(value, limit=6))
        elif isinstance(value, Seq):
            stack.extend(value.items)
        elif isinstance(value, Dict):
            stack.extend(value.entries.values())
        elif isinstance(value, Obj) and id(value) not in found:
            found[id(value)] = value
            if not (exact and value.kind == "copy"):
                stack.extend(_children(value, exact))
    return found


def _children(value: Obj, exact: bool) -> Iterator[Value]:
    for name, child in value.attrs.items():
        if exact and isinstance(settle(child), (Seq, Dict)) and not name.startswith("<"):
            continue
        if isinstance(child, (Seq, Dict, Choice, Phi)) or (
            isinstance(child, Obj) and (_holds(child) or (not exact and (child.kind == "attr" or _around(child))))
        ):
            yield child
    if value.kind in {"call", "copy"} or value.name.startswith("torch.nn."):
        for arg in (*value.args, *value.kwargs.values()):
            base = settle(arg)
            if isinstance(base, (Seq, Dict)) or (
                isinstance(base, Obj) and (is_module(base) or base.name in _PARAMETERS)
            ):
                yield base
    inner = wrapped(value)
    if inner is not None and inner is not value:
        yield inner


def _made_here(owner: Obj) -> bool:
    """Not something that code which is not seen made of another module, or of nothing that is known."""
    if is_module(owner):
        return True
    parts = [p for p in provenance(owner, 60) if isinstance(p, Obj)]
    return not any(p.name == "?" or is_module(p) for p in parts)


def _around(value: Obj) -> bool:
    """What a library function returns that was given a module: most likely the module, changed or wrapped."""
    return value.kind == "call" and any(is_module(settle(arg)) for arg in value.args)


def _holds(value: Obj) -> bool:
    return is_module(value) or value.name in _PARAMETERS


def stepped(reading: Reading, event: Event) -> Obj | None:
    """The optimizer that a step event steps: its own, or the one that is given to a scaler."""
    for value in (event.receiver, *event.args):
        for option in options_of(value, limit=4):
            if isinstance(option, Obj) and reading.roles.of(option) == "optimizer":
                return option
    return None
