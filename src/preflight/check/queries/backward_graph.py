"""Which things a gradient reaches: the graph behind a loss, as far as autograd follows it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.source.trace import Context, name_of
from preflight.source.values import Choice, Dict, Known, Obj, Phi, Seq, Unknown, Value, settle

# Autograd does not go through these.
CUTS = frozenset(
    [
        ".detach",
        ".detach_",
        ".item",
        ".tolist",
        ".numpy",
        ".argmax",
        ".argmin",
        ".long",
        ".int",
        ".bool",
        ".size",
        ".numel",
        ".dim",
        ".eq",
        ".ne",
        ".gt",
        ".lt",
        ".ge",
        ".le",
        ".sign",
        ".multinomial",
        "builtins.float",
        "builtins.int",
        "builtins.bool",
        "builtins.len",
        "builtins.str",
        "numpy.array",
        "numpy.asarray",
        "torch.argmax",
        "torch.argmin",
        "torch.tensor",
        "torch.autograd.Variable",
        "torch.zeros_like",
        "torch.ones_like",
        "torch.rand_like",
        "torch.randn_like",
        "torch.full_like",
        "torch.empty_like",
        "torch.eq",
        "torch.ne",
        "torch.as_tensor",
        "torch.from_numpy",
        "torch.sign",
        "torch.multinomial",
    ]
)
_TESTS = frozenset({"==", "!=", "<", ">", "<=", ">=", "not", "and", "or", "in", "notin", "is", "isnot"})
_OFF = frozenset({"torch.no_grad", "torch.inference_mode"})
_PLAIN = frozenset({"data", "shape", "device", "dtype", "ndim"})


def grad_mode(context: Context | None) -> bool | None:
    """Whether gradients are recorded at a place: True, False, or None where a value decides that is not known."""
    for manager in context.withs() if context is not None else ():
        base = settle(manager)
        if isinstance(base, Choice):
            if any(name_of(o) in _OFF for o in base.options):
                return None
            continue
        name = name_of(base)
        if name in _OFF:
            given = base.argument(0, "mode") if isinstance(base, Obj) and base.kind == "call" else None
            if name == "torch.inference_mode" and given is not None:
                mode = settle(given)
                return not mode.value if isinstance(mode, Known) and not mode.soft else None
            return False
        if name == "torch.enable_grad":
            return True
        if name == "torch.set_grad_enabled":
            switch = settle(base.args[0]) if isinstance(base, Obj) and base.args else None
            return bool(switch.value) if isinstance(switch, Known) and not switch.soft else None
    return True


def is_cut(value: Value) -> bool:
    """Whether no gradient flows back through a value."""
    if isinstance(value, Known):
        return True
    if not isinstance(value, Obj) or is_leaf(value):
        return False
    if value.kind == "attr" and value.name in _PLAIN:
        return True
    if value.name == ".requires_grad_":
        return False  # where gradients are off, too, it makes a leaf
    if value.kind == "op" and value.name in _TESTS:
        return True
    if value.kind == "call" and (value.name in CUTS or _without_a_graph(value)):
        return True
    return (
        value.kind in {"call", "op"} and value.cls is None and grad_mode(value.context) is False and not _makes(value)
    )


def _without_a_graph(value: Obj) -> bool:
    """Whether a call draws from a distribution of PyTorch (``rsample`` alone keeps a graph) or acts in an environment."""
    if value.name not in (".sample", ".sample_n", ".step", ".reset") or value.receiver is None:
        return False
    made = name_of(settle(value.receiver)) or ""
    draws = value.name.startswith(".sample")
    return made.startswith("torch.distributions." if draws else ("gym.", "gymnasium.", "pettingzoo."))


def is_leaf(value: Obj) -> bool:
    """Whether a tensor was made to be trained: a gradient ends there, and is wanted there."""
    if not value.name.startswith("torch."):
        return False
    wanted = value.attrs.get("requires_grad") or value.kwargs.get("requires_grad")
    settled = settle(wanted) if wanted is not None else None
    return isinstance(settled, Known) and settled.value is True


def _makes(value: Obj) -> bool:
    """Things, not tensors: a module that is made inside no_grad still has parameters."""
    from preflight.source.evaluate.library.methods import is_module

    return is_module(value)


def graph(loss: Value | None, limit: int = 4000, sure: bool = False) -> Iterator[Value]:
    """Yield what autograd reaches from a loss, nearest first, each once; modules and parameters included.

    Args:
        loss: Where the backward pass begins.
        limit: After so many values the walk ends.
        sure: Stop at functions that are out of sight, which may only count or index with what they are given.
    """
    if loss is None:
        return
    queue: list[Value] = [loss]
    seen = {id(loss)}
    index = 0
    while index < len(queue) and index < limit:
        current = queue[index]
        index += 1
        if is_cut(current):
            continue
        yield current
        if sure and _out_of_sight(current):
            continue
        for parent in _inputs(current):
            if id(parent) not in seen:
                seen.add(id(parent))
                queue.append(parent)


def _out_of_sight(value: Value) -> bool:
    """Whether a value is what a function gave that is neither PyTorch's nor read."""
    if not isinstance(value, Obj) or value.kind != "call" or value.cls is not None:
        return False
    return not value.name.startswith((".", "()", "torch.", "builtins.", "einops.", "super"))


def _inputs(value: Value) -> Iterator[Value]:
    if isinstance(value, Obj):
        from preflight.source.evaluate.library.methods import is_module

        if is_module(value):
            return  # its arguments are settings
        if value.kind == "call" and "requires_grad" in value.kwargs and value.name.startswith(("torch.", ".new_")):
            return  # a tensor of its own is made of what it is given: the gradient ends there
        yield from value.args
        yield from value.kwargs.values()
        if value.receiver is not None:
            yield value.receiver
    elif isinstance(value, Unknown):
        yield from value.parents
    elif isinstance(value, Choice):
        yield from value.options
    elif isinstance(value, Phi):
        yield value.initial
        if value.final is not None:
            yield value.final
    elif isinstance(value, Seq):
        yield from value.items
    elif isinstance(value, Dict):
        yield from value.entries.values()


def reached(losses: list[Value]) -> dict[int, Obj]:
    """Things that the gradients of losses reach, by identity."""
    return {id(v): v for loss in losses for v in graph(loss) if isinstance(v, Obj)}


def hidden(losses: list[Value]) -> bool:
    """Whether a loss comes through something that is not known, which may use any model."""
    for loss in losses:
        for value in graph(loss):
            if isinstance(value, Obj) and value.name == "?":
                return True
            if (
                isinstance(value, Obj)
                and value.kind == "call"
                and value.name.startswith(".")
                and isinstance(_holder(value), Unknown)
            ):
                return True
            if value is loss and isinstance(value, (Unknown, Known)):
                return True
    return False


def _holder(value: Obj) -> Value | None:
    base = settle(value.receiver) if value.receiver is not None else None
    if isinstance(base, Unknown) and (base.parents or base.reason.startswith("item")):
        return None
    return base


def explained(losses: list[Value]) -> bool:
    """Whether everything behind the losses is known but for the data: then what is not there is not used."""
    for loss in losses:
        called = False
        for value in graph(loss):
            if isinstance(value, Obj):
                called = called or value.name == "()"
                if value.name == "?" or value.kind == "generator":
                    return False
            elif (isinstance(value, Unknown) and not value.parents and not value.reason.endswith("is not bound")) or (
                isinstance(value, (Seq, Dict)) and value.open and not _stands_for_all(value)
            ):
                return False
        if not called:
            return False
    return bool(losses)


def _stands_for_all(value: Value) -> bool:
    """Whether the items of a list that is not fully known are what a comprehension makes of one element: all are alike."""
    node = value.site.node if value.site is not None else None
    return isinstance(value, Seq) and bool(value.items) and isinstance(node, (ast.ListComp, ast.GeneratorExp))
