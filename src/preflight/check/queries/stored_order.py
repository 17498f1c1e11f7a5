"""Whether the order in which a loader gives the samples of its data set matters for a training."""

from __future__ import annotations

import ast

from preflight.check.context import Context
from preflight.check.queries.loaders import dataset_of, feeding, given, is_iterable_dataset, source_loaders
from preflight.check.queries.tensors import ELEMENTWISE, VIEWS, operand, operation, origin, second
from preflight.source.trace import provenance
from preflight.source.values import Func, Known, Obj, Unknown, Value, options_of, settle


def in_stored_order(context: Context, loader: Obj) -> bool:
    """Whether a loader that does not shuffle gives the samples in stored order, and the order matters.

    Args:
        context: The script.
        loader: A loader of training data.
    """
    if any(_chosen(loader, name) for name in ("sampler", "batch_sampler")):
        return False
    dataset = dataset_of(loader)
    if is_iterable_dataset(dataset) or is_full_batch(loader) or _drawn(dataset):
        return False
    return not _random_access(dataset) and not _carries_state(context, loader)


_NO_ORDER = frozenset(("rand", "randn", "randint", "randperm", "normal", "bernoulli", "zeros", "ones", "full"))
_KEEP_NO_ORDER = ELEMENTWISE | {
    "+", "-", "*", "/", "**", "@", "<", "<=", ">", ">=", "==", "neg", "add", "sub", "mul", "div", "pow", "matmul", "mm",
    "sum", "mean", "argmax", "sign", "sin", "cos", "gt", "ge", "lt", "le", "eq", "long", "int", "bool",
}  # fmt: skip


def _drawn(dataset: Value | None) -> bool:
    """Whether all samples are numbers that the script draws or writes down, as where only speed is looked at."""
    base = settle(dataset) if dataset is not None else None
    if not isinstance(base, Obj) or base.name != "torch.utils.data.TensorDataset" or not base.args:
        return False
    return all(_without_order(arg) for arg in base.args)


def _without_order(value: Value | None, depth: int = 0) -> bool:
    """Whether a tensor holds numbers that were drawn, or what is computed of each of them: a target, say."""
    made = origin(value, VIEWS, items=True)
    name = operation(made)
    if made is None or name in _NO_ORDER:
        return made is not None
    if name not in _KEEP_NO_ORDER or depth > 8:
        return False
    # What all samples are multiplied by may be written out.
    given = [settle(one) for one in (operand(made), second(made)) if one is not None]
    drawn = [one for one in given if not isinstance(one, Known) and operation(one) != "tensor"]
    return bool(drawn) and all(_without_order(one, depth + 1) for one in drawn)


def _chosen(loader: Obj, name: str) -> bool:
    """Whether a sampler decides the order in every case: one that is there only when distributed does not."""
    value = given(loader, name)
    if value is None:
        return loader.open_args
    return not any(isinstance(option, Known) and option.value is None for option in options_of(settle(value)))


def is_full_batch(loader: Obj) -> bool:
    """Whether a loader gives all samples as one batch."""
    size = given(loader, "batch_size")
    return any(isinstance(p, Obj) and p.name == "builtins.len" for p in provenance(size, 50)) or any(
        isinstance(p, Unknown) and p.reason.startswith("the length") for p in provenance(size, 50)
    )


_RANDOM = frozenset(("randint", "randrange", "choice", "choices", "sample", "integers", "rand", "random_integers"))


def _random_access(dataset: Value | None) -> bool:
    """Whether the dataset picks or makes its samples itself, whatever index it is asked for."""
    base = settle(dataset) if dataset is not None else None
    if not isinstance(base, Obj) or base.cls is None:
        return False
    for name in ("__getitem__", "__getitems__", "sample", "get_batch"):
        method = base.cls.lookup(name)
        if isinstance(method, Func) and any(
            isinstance(n, ast.Call) and getattr(n.func, "attr", getattr(n.func, "id", "")) in _RANDOM
            for n in ast.walk(method.node)
        ):
            return True
    method = base.cls.lookup("__getitem__")
    return isinstance(method, Func) and _ignores_index(method.node)


def _ignores_index(function: ast.AST) -> bool:
    """Whether a `__getitem__` returns something and never reads the index: no order of the indices changes a sample."""
    if not isinstance(function, ast.FunctionDef) or len(function.args.args) != 2:
        return False
    nodes = list(ast.walk(function))
    index = function.args.args[1].arg
    returns = any(isinstance(n, ast.Return) and n.value is not None for n in nodes)
    return returns and not any(isinstance(n, ast.Name) and n.id in (index, "locals", "super") for n in nodes)


def _carries_state(context: Context, loader: Obj) -> bool:
    """Whether a loop over the loader hands what a network returned to its next pass: then the order matters."""
    feeds = feeding(context)
    for carry in context.trace.carried:
        events = feeds.inside(carry.frame)
        if not any(event.name in (".backward", ".manual_backward") for event in events):
            continue
        if loader not in source_loaders(context, carry.frame.value):
            continue
        for event in events:
            if event.name == "()" and any(carry.mark is p for a in event.args for p in provenance(a, 60)):
                return True
    return False
