"""What is cut off from a loss: whether autograd finds anything to train behind it, and which networks lie there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.check.queries.backward_graph import graph, is_leaf
from preflight.check.queries.batches import loader_of
from preflight.source.evaluate.library.methods import is_module
from preflight.source.trace import provenance
from preflight.source.values import Obj, Seq, Unknown, Value, options_of, settle

if TYPE_CHECKING:
    from preflight.source.reading import Reading

# These put values together, whose gradients go on through them.
_ADDING = frozenset(
    {"torch.autograd.Variable", "torch.stack", "torch.cat", "builtins.sum", "torch.FloatTensor", "torch.Tensor"}
)
_ACTIVATIONS = frozenset(
    {"ReLU", "LeakyReLU", "GELU", "SiLU", "Sigmoid", "Tanh", "Softmax", "LogSoftmax", "Softplus", "ELU", "Identity",
     "Flatten", "Dropout"}
)  # fmt: skip


def behind(value: Value) -> bool:
    """Whether a value was computed by a network: one of the script, or a layer that has weights."""
    return any(is_network_call(part) for part in provenance(value, 400))


def is_network_call(value: Value) -> bool:
    """Whether a value is what a call of a network gave."""
    return isinstance(value, Obj) and value.name == "()" and is_module(value.receiver) and not _without_weights(value)


def _without_weights(call: Obj) -> bool:
    """Whether what is called is a criterion or an activation of PyTorch: it has nothing to train."""
    called = settle(call.receiver) if call.receiver is not None else None
    if not isinstance(called, Obj) or called.cls is not None or not called.name.startswith("torch.nn."):
        return False
    return called.name.endswith("Loss") or called.name.rpartition(".")[2] in _ACTIVATIONS


def trained_themselves(reading: Reading) -> frozenset[int]:
    """Identities of the tensors that optimizers of the script are given one by one: ``Adam([image])``."""
    return frozenset(
        id(option)
        for optimizer in reading.made("optimizer")
        for given in (optimizer.argument(0, "params"),)
        for option in (*options_of(given), *(o for item in _items(given) for o in options_of(item)))
        if isinstance(option, Obj) and option.kind == "call"
    )


def _items(given: Value | None) -> list[Value]:
    listed = settle(given) if given is not None else None
    return list(listed.items) if isinstance(listed, Seq) else []


def nothing_left(loss: Value, trained: frozenset[int] = frozenset()) -> bool:
    """Whether autograd finds nothing to train behind a loss: only numbers, data, and what was cut off.

    Where anything in between is not known the answer is False.

    Args:
        loss: What the backward pass begins at.
        trained: Identities of tensors that are trained themselves, whatever they were made of.
    """
    if trained and any(id(part) in trained for part in graph(loss)):
        return False
    data = _data_behind(loss)
    for value in graph(loss):
        base = settle(value)
        if id(value) in data or (isinstance(base, Obj) and _criterion(base)):
            continue
        if isinstance(base, Unknown):
            return False
        if isinstance(base, Obj) and base.kind != "op" and value is base and _may_train(base):
            return False
    return True


def _criterion(value: Obj) -> bool:
    """Whether a value is a criterion of PyTorch, or the loss that one gives."""
    if value.kind == "call" and value.name == "()":
        return _without_weights(value)
    return value.cls is None and value.name.startswith("torch.nn.") and value.name.endswith("Loss")


def _may_train(value: Obj) -> bool:
    """Whether a value may have weights behind it, or be trained itself."""
    if value.kind != "call" or value.name in ("()", "?") or value.cls is not None or is_module(value):
        return True
    if not (value.name.startswith(".") or value.name in _ADDING or value.name.startswith("torch.")):
        return True
    wanted = value.name == ".requires_grad_" or (is_leaf(value) and value.name not in _ADDING)
    if wanted and not behind(value):
        return True  # a tensor that is trained itself
    parameters = ("torch.nn.Parameter", "torch.nn.parameter.Parameter")
    return value.name in parameters or not (value.args or value.receiver)


def _data_behind(loss: Value) -> set[int]:
    """What loaders give, and all that it comes from: no gradient is wanted there."""
    found: set[int] = set()
    for value in graph(loss):
        if id(value) not in found and loader_of(value) is not None:
            found.add(id(value))
            found.update(id(part) for part in provenance(value, 400))
    return found
