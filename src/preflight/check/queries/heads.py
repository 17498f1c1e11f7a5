"""Heads: what computes the output of a library network whose last part the script replaced."""

from __future__ import annotations

import re

from preflight.check.queries.tensors import module_of, operation
from preflight.source.evaluate.library.torch import module_items
from preflight.source.values import Known, Obj, Value, settle

# The attribute that is called last in the forward of torchvision's and timm's classifiers.
_HEADS = ("fc", "classifier", "heads", "head")
_NETWORKS = r"^(torchvision\.models\.\w+|timm\.create_model|timm\.models\.create_model)$"


def last_part(value: Obj | None) -> tuple[str, Obj, Obj | None] | None:
    """The last layer of the head that the script gave to the network that made a value.

    Returns:
        The name of its operation as in ``tensors.operation``, the layer, and the layer before it where that is known.
    """
    network = module_of(value) if value is not None else None
    if network is None or network.cls is not None or not re.match(_NETWORKS, network.name):
        return None
    placed = [settle(network.attrs[name]) for name in _HEADS if name in network.attrs]
    heads = [h for h in placed if isinstance(h, Obj) and h.kind == "call" and h.name.startswith("torch.nn.")]
    if len(placed) != 1 or not heads:
        return None
    layers = _flat(heads[0], 0)
    if not layers or not isinstance(layers[-1], Obj) or layers[-1].cls is not None:
        return None
    last = layers[-1]
    before = layers[-2] if len(layers) > 1 else None
    name = operation(_called(last))
    return (name, last, before if isinstance(before, Obj) else None) if name is not None else None


def _flat(module: Value, depth: int) -> list[Value] | None:
    """The layers of a Sequential in order, those of inner ones in their place; None where they are not all known."""
    base = settle(module)
    if not isinstance(base, Obj) or depth > 6:
        return None
    if base.name != "torch.nn.Sequential":
        return [base]
    found: list[Value] = []
    for part in module_items(None, base) or ():
        inner = _flat(part, depth + 1)
        if inner is None:
            return None
        found.extend(inner)
    return found or None


def _called(module: Obj) -> Obj:
    """What a call of a module would return."""
    return Obj("call", "()", module.site, module.context, [Known(None)], {}, module)


__all__ = ["last_part"]
