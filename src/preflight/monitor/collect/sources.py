"""From which parameters a result is computed, as far as these are near: the first ends of its graph."""

from __future__ import annotations

import weakref
from itertools import islice
from typing import Any

from .graph import name_of
from .variables import Variables

_MOST_NODES = 64
_LEAST = 2  # dimensions of a parameter


def near(node: Any) -> list[weakref.ref[Any]]:
    """The matrices at the ends of the graph of an operation, those that are a few operations away.

    The graph is not held by what is returned.

    Args:
        node: The operation.
    """
    nodes, seen, found = [node], {id(node)}, []
    for one in islice(nodes, _MOST_NODES):  # grows as it goes
        if name_of(one) == "AccumulateGrad":
            if one.variable.dim() >= _LEAST:
                found.append(weakref.ref(one.variable))
            continue
        for below, _ in one.next_functions:
            if below is not None and id(below) not in seen:
                seen.add(id(below))
                nodes.append(below)
    return found


def names_of(variables: Variables, tensors: list[weakref.ref[Any]]) -> list[str]:
    """The names of those tensors that are parameters of a model and still there.

    Args:
        variables: What is known of the variables of the process.
        tensors: The tensors.
    """
    known = [variables.of(tensor) for tensor in (held() for held in tensors) if tensor is not None]
    return [one.name for one in known if one is not None and one.kind == "parameter"]
