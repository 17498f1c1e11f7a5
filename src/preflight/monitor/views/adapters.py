"""Models beside whose weights something else is to be trained: adapters next to frozen ones, copies in another precision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set

from preflight.monitor.window import Variable


def mastered(with_gradient: Set[int], variables: Mapping[int, Variable]) -> set[str]:
    """Models of which no optimizer holds anything, and of which each parameter has its like among tensors of no model."""
    masters = Counter(tuple(one.shape) for one in variables.values() if one.optimizer >= 0 and not one.module)
    found = set()
    for root in {variables[ident].root for ident in with_gradient} if masters else ():
        own = [one for one in variables.values() if one.root == root and one.kind == "parameter" and one.trainable]
        if all(one.optimizer < 0 for one in own) and Counter(tuple(one.shape) for one in own) == masters:
            found.add(root)
    return found


def adapted(with_gradient: Set[int], variables: Mapping[int, Variable]) -> set[str]:
    """Models of which each matrix that nobody holds, and that has gradients, stands beside a larger one that was frozen.

    Beside it is what the same module computes with, or one next to it; of several that a module has inside, none is meant.
    """
    frozen: dict[str, dict[str, int]] = {}  # by root and module: how large the matrices are that it holds itself
    for one in variables.values():
        if one.kind == "parameter" and not one.trainable and len(one.shape) > 1:
            held = frozen.setdefault(one.root, {})
            module = one.name.rpartition(".")[0]
            held[module] = held.get(module, 0) + one.numel
    matrices = [variables[ident] for ident in with_gradient if len(variables[ident].shape) > 1]
    found = {one.root for one in matrices} & frozen.keys()
    for one in matrices:
        held = frozen.get(one.root, {})
        module = one.name.rpartition(".")[0]
        outer = module.rpartition(".")[0]
        inside = [other for other in held if other.startswith(module + ".")]
        near = [other for other in held if other.rpartition(".")[0] == outer] if outer != one.root else []
        if len(inside) == 1 and inside[0].rpartition(".")[0] == module:
            near += inside
        if not any(held[other] > one.numel for other in near):
            found.discard(one.root)
    return found
