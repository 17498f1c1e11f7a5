"""Who keeps tensors alive: the variable, list or attribute of the person's own code that leads to them."""

from __future__ import annotations

import ast
import gc
import os
import sys
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from types import FrameType, FunctionType, ModuleType
from typing import Any

from preflight.dryrun.virtual import private
from preflight.dryrun.virtual.progress import Progress
from preflight.dryrun.virtual.sources import own_trees

Fake = private.fake_class()
sequence_number = private.sequence_number
_DEEPEST = 6
_GRAPHS = 60
_LOOKED_AT = 12
"""So many of the tensors that are kept are followed to their owner: those of one line have one."""
_PATIENCE = 10.0
"""Seconds for one search; a process with many objects has many to look through."""
_ADDS = frozenset("append appendleft add extend insert update setdefault push put store add_scalar record".split())
_EMPTIES = frozenset(("clear", "reset", "popleft"))


@dataclass
class Keeper:
    """Who keeps something.

    Attributes:
        name: How the script calls it: ``losses``, ``tracker.history``; empty where it was not found.
        kind: ``list``, ``dict``, ``deque`` ..., or ``graph`` for a variable whose autograd graph reaches back.
        lines: ``file:line`` of the statements that add to it.
        emptied: ``file:line`` of the statements in loops that empty it.
        limited: Whether it can hold only so much.
        again: Whether it is made from itself, as in ``h = cell(x, h)``.
    """

    name: str = ""
    kind: str = ""
    lines: list[str] = field(default_factory=list)
    emptied: list[str] = field(default_factory=list)
    limited: bool = False
    again: bool = False
    _loops: dict[str, tuple[int, int]] = field(default_factory=dict)
    _root: str = ""

    def told(self) -> dict[str, Any]:
        """Return plain values."""
        return {"keeper": self.name, "kind": self.kind, "kept_at": self.lines[:3], "emptied_at": self.emptied[:3]}

    def emptied_within(self, loop: str) -> bool:
        """Whether it is emptied inside a loop, given as ``file:line`` of an absolute file."""
        span = self._loops.get(loop)
        if span is None:
            return False
        file = os.path.relpath(loop.rpartition(":")[0], self._root)
        places = (place.rpartition(":") for place in self.emptied)
        return any(name == file and span[0] < int(line) <= span[1] for name, _, line in places)


def find(kept: dict[Any, set[int]], since: int, progress: Progress) -> dict[Any, Keeper]:
    """Return who keeps storages alive, for each group of them.

    Args:
        kept: ``_cdata`` of the storages of each group.
        since: Number of the first autograd node of the present step: who reaches an older one keeps its graph.
        progress: Where the run is; the script's own frames are on the stack.
    """
    names, until = _names(progress), time.thread_time() + _PATIENCE
    tensors = [thing for thing in gc.get_objects() if issubclass(type(thing), Fake)]
    ignore = {id(tensors), id(names)}
    place = {key: group for group, keys in kept.items() for key in keys}
    held: dict[Any, list[Any]] = {}
    for tensor in tensors:
        group = place.get(tensor.untyped_storage()._cdata)
        if group is not None:
            held.setdefault(group, []).append(tensor)
    ignore |= {id(held), *map(id, held.values())}
    found: dict[Any, Keeper] = {}
    for group, direct in held.items():
        owners = Counter(o for t in direct[:_LOOKED_AT] if (o := _owner(t, names, ignore, until)) is not None)
        if owners:
            found[group] = _located(*owners.most_common(1)[0][0], progress)
    if len(found) < len(kept):
        # What no Python object holds is saved in a graph: of a tensor that is carried on, or of one that is kept.
        keeper = _of_graph(tensors, since, names, ignore, progress, until)
        if keeper is None:
            keeper = next((k for g, k in found.items() if any(t.grad_fn is not None for t in held[g])), None)
        for group in kept:
            found.setdefault(group, keeper or Keeper())
    return found


def _of_graph(
    tensors: list[Any], since: int, names: dict[int, str], ignore: set[int], progress: Progress, until: float
) -> Keeper | None:
    """Return the variable whose graph reaches back into earlier steps; rather one that is made from itself."""
    candidates: dict[str, Keeper] = {}
    for tensor in [t for t in tensors if since and t.grad_fn is not None][:_GRAPHS]:
        if tensor.grad_fn._sequence_nr() >= since and _reaches_back(tensor.grad_fn, since):
            owner = _owner(tensor, names, ignore, until)
            if owner is not None and owner[0] not in candidates:
                candidates[owner[0]] = _located(owner[0], "graph", False, progress)
    carried = [keeper for keeper in candidates.values() if keeper.again]
    return next(iter(carried or candidates.values()), None)


def _names(progress: Progress) -> dict[int, str]:
    """Return what the script's own variables are called, by the identity of what they hold."""
    found: dict[int, str] = {}
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if progress.owns(frame.f_code.co_filename):
            for name, value in frame.f_locals.items():
                found.setdefault(id(value), name)
        frame = frame.f_back
    for module in list(sys.modules.values()):
        if progress.owns(getattr(module, "__file__", None) or ""):
            for name, value in vars(module).items():
                if not isinstance(value, ModuleType):
                    found.setdefault(id(value), name)
    return found


def _owner(tensor: Any, names: dict[int, str], ignore: set[int], until: float) -> tuple[str, str, bool] | None:
    """Return the name of who holds a tensor, its kind, and whether it can hold only so much; None where time is up."""
    if time.thread_time() > until:
        return None
    inner: dict[int, Any] = {}  # what lies inside a thing, on the way to the tensor
    seen = {id(tensor)}
    level = [tensor]
    mine = ignore | {id(inner)}
    for _ in range(_DEEPEST):
        within = {id(thing) for thing in level}
        outer: list[Any] = []
        # Python looks through all there is: once for a whole level, not for each of its things.
        for other in gc.get_referrers(*level):
            if id(other) in mine or id(other) in seen or other is level or other is outer or not _holds(other):
                continue
            inner[id(other)] = next((part for part in gc.get_referents(other) if id(part) in within), None)
            if inner[id(other)] is not None:
                seen.add(id(other))
                outer.append(other)
        for thing in outer:
            if id(thing) in names:
                return _called(thing, names[id(thing)], inner, tensor)
        level = outer
        if not level or time.thread_time() > until:
            break
    return (names[id(tensor)], "variable", False) if id(tensor) in names else None


def _holds(thing: Any) -> bool:
    """Whether something is a part of the script's data, and not of how Python runs."""
    kind = type(thing)
    if issubclass(kind, (list, tuple, dict, set, deque)):
        return not (kind is dict and "__builtins__" in thing)
    if issubclass(kind, (type, ModuleType, FrameType, FunctionType)) or kind.__module__.startswith("preflight."):
        return False
    return bool(getattr(kind, "__dictoffset__", 0))


def _called(thing: Any, name: str, inner: dict[int, Any], tensor: Any) -> tuple[str, str, bool]:
    """Return how what holds a tensor is called, from the variable that leads to it."""
    kind, limited, named = "attribute", False, False
    while thing is not tensor:
        child = inner[id(thing)]
        if isinstance(thing, (list, tuple, set, deque, dict)):
            kind = type(thing).__name__
            limited = limited or getattr(thing, "maxlen", None) is not None
        if not named and not isinstance(thing, (list, tuple, set, deque)):
            of_object = not isinstance(thing, dict)
            held = vars(thing) if of_object else thing
            if held is child:  # the dictionary of the object's attributes
                thing = child
                key = next((k for k, v in child.items() if v is inner[id(child)]), None)
                name, thing = f"{name}.{key}", inner[id(child)]
                continue
            key = next((k for k, v in held.items() if v is child), None)
            if isinstance(key, str):
                name = f"{name}.{key}" if of_object else f"{name}[{key!r}]"
        else:
            named = True  # what lies inside a list has no name
        thing = child
    return name, kind, limited


def _reaches_back(node: Any, since: int) -> bool:
    """Whether a graph has a node that was made before the present step, other than those of the parameters."""
    waiting, seen = [node], {node}
    while waiting and len(seen) < 50_000:
        current = waiting.pop()
        if type(current).__name__ != "AccumulateGrad" and current._sequence_nr() < since:
            return True
        for following, _ in current.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return False


def _located(name: str, kind: str, limited: bool, progress: Progress) -> Keeper:
    """Return a keeper with the statements that add to it and those that empty it."""
    keeper = Keeper(name, kind, limited=limited, _root=progress.root)
    last = keeper.name.partition("[")[0].rpartition(".")[2]
    for file, tree in own_trees(progress):
        shown = os.path.relpath(file, progress.root)
        _search(tree, last, keeper, file, shown)
    return keeper


def _search(tree: ast.Module, name: str, keeper: Keeper, file: str, shown: str) -> None:
    loops = [node for node in ast.walk(tree) if isinstance(node, (ast.For, ast.While))]
    for loop in loops:
        keeper._loops[f"{file}:{loop.lineno}"] = (loop.lineno, loop.end_lineno or loop.lineno)
    inside = {id(node) for loop in loops for node in ast.walk(loop)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is(node.func.value, name):
            if node.func.attr in _ADDS:
                keeper.lines.append(f"{shown}:{node.lineno}")
            elif node.func.attr in _EMPTIES and id(node) in inside:
                keeper.emptied.append(f"{shown}:{node.lineno}")
        elif isinstance(node, (ast.AugAssign, ast.Assign)):
            _assigned(node, name, keeper, shown, id(node) in inside)
        elif isinstance(node, ast.Delete) and id(node) in inside and any(_is(t, name) for t in node.targets):
            keeper.emptied.append(f"{shown}:{node.lineno}")


def _assigned(node: ast.AugAssign | ast.Assign, name: str, keeper: Keeper, shown: str, looped: bool) -> None:
    targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
    flat = [t for target in targets for t in (target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target])]
    place = f"{shown}:{node.lineno}"
    if any(isinstance(t, ast.Subscript) and _is(t.value, name) for t in flat):
        keeper.lines.append(place)
    elif any(_is(t, name) for t in flat):
        empty = isinstance(node.value, (ast.List, ast.Dict, ast.Constant)) and not any(
            isinstance(n, ast.Name) for n in ast.walk(node.value)
        )
        again = isinstance(node, ast.AugAssign) or any(_is(n, name) for n in ast.walk(node.value))
        keeper.again = keeper.again or (again and looped)
        if again or (keeper.kind == "graph" and looped):
            keeper.lines.append(place)
        elif looped and (empty or isinstance(node.value, ast.Call)):
            keeper.emptied.append(place)


def _is(node: ast.AST, name: str) -> bool:
    """Whether an expression is a variable or attribute of a name."""
    return (isinstance(node, ast.Name) and node.id == name) or (isinstance(node, ast.Attribute) and node.attr == name)
