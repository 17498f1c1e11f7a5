"""Which functions train: a cheap look at names, to decide whether a loop is worth unrolling. It is never evidence."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from preflight.source.script import Script

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

_TRAINING_METHODS = frozenset({"backward", "zero_grad", "fit", "training_step", "train_step", "no_sync", "set_epoch"})


def index_script(machine: Machine, script: Script) -> None:
    """Add the names of a script's functions that train, directly or through another function of the project."""
    if id(script) in machine.indexed:
        return
    machine.indexed.add(id(script))
    calls: dict[str, set[str]] = {}
    if not re.search(
        rf"\b(?:{'|'.join(map(re.escape, _TRAINING_METHODS | machine.training_names))})\s*\(", script.text
    ):
        return  # no function of this file calls one that trains
    _collect(script.tree, None, calls)
    names = machine.training_names
    changed = True
    while changed:
        changed = False
        for name, called in calls.items():
            if name not in names and (called & _TRAINING_METHODS or called & names):
                names.add(name)
                changed = True


def _collect(node: ast.AST, owner: str | None, calls: dict[str, set[str]]) -> None:
    stack: list[tuple[ast.AST, str | None]] = [(node, owner)]
    while stack:
        current, name = stack.pop()
        if isinstance(current, (ast.FunctionDef, ast.AsyncFunctionDef)):
            name = current.name
            calls.setdefault(name, set())
        elif isinstance(current, ast.Call) and name is not None:
            func = current.func
            if isinstance(func, ast.Attribute):
                calls[name].add(func.attr)
            elif isinstance(func, ast.Name):
                calls[name].add(func.id)
        stack.extend((child, name) for child in ast.iter_child_nodes(current))


def trains(machine: Machine, loop: ast.AST) -> bool:
    """Whether the body of a loop trains, by the names it calls."""
    names = machine.training_names
    for node in ast.walk(loop):
        if isinstance(node, ast.Call):
            func = node.func
            called = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
            if called in _TRAINING_METHODS or called in names or called == "step":
                return True
    return False
