"""What the program's modules and parameters are called: by the name of the variable that holds the model.

A root is a module that is called from the person's code; its parts are named by their path in it.
Wrappers (DDP, compile, FSDP 1, activation checkpointing) are looked through, so that names do not change with them.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from types import FrameType
from typing import Any

from .places import is_users
from .scope import attributes_of, is_a, owner_of, variables

_WRAPPED = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
_WRAPPERS_WITH_MODULE = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "DeepSpeedEngine")
_LISTS = ("ModuleList", "ModuleDict")
"""Modules that are never called themselves."""
_FRAMES = 12


def inner(module: Any) -> Any:
    """The module inside of wrappers."""
    for _ in range(8):
        held = module.__dict__.get("_modules", {})
        for name in _WRAPPED:
            if name in held:
                module = held[name]
                break
        else:
            if type(module).__name__ in _WRAPPERS_WITH_MODULE and "module" in held:
                module = held["module"]
                continue
            return module
    return module


def replica(module: Any) -> Any:
    """The module of which a data-parallel one holds a replica, which several processes train as one does; else itself."""
    if type(module).__name__ != "DistributedDataParallel":
        return module
    return module.__dict__.get("_modules", {}).get("module", module)


def parts(module: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """The module and its parts with their names, wrappers looked through, each once."""
    seen: set[int] = set()
    waiting = [(prefix, inner(module))]
    while waiting:
        name, part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield name, part
        children = [(f"{name}.{word}", inner(child)) for word, child in part._modules.items() if child is not None]
        waiting.extend(reversed(children))


class Names:
    """The names that are known, and the modules that are roots."""

    def __init__(self) -> None:
        self.roots: dict[str, weakref.ref[Any]] = {}
        self._modules: dict[int, tuple[weakref.ref[Any], str]] = {}
        self.changed = True
        self.version = 0  # grows with every name that is given: what was remembered with an older one may be wrong

    def of(self, module: Any) -> str | None:
        """The name of a module, or None when it is not known."""
        module = inner(module)
        known = self._modules.get(id(module))
        return known[1] if known is not None and known[0]() is module else None

    def root(self, module: Any, frame: FrameType | None = None, given: str | None = None) -> str:
        """Make a module a root, unless it is a part of one already, and return its name."""
        module = inner(module)
        known = self.of(module)
        if known is not None:
            return known
        name = given or variable_of(module, frame) or _plain(type(module).__name__)
        number, free = 1, name
        while free in self.roots and self.roots[free]() not in (None, module):
            number += 1
            free = f"{name}{number}"
        self._take(module, free)
        return free

    def _take(self, module: Any, name: str) -> None:
        list_alone = type(module).__name__ in _LISTS
        for part_name, part in parts(module, name):
            known = self._modules.get(id(part))
            if known is not None and known[0]() is part:
                if known[1] in self.roots:
                    del self.roots[known[1]]  # what stood for itself is a part of this
                elif list_alone and self._stands(known[1].partition(".")[0]):
                    continue  # a list beside the model, such as that of what is trained: parameters keep their names, too
            self._modules[id(part)] = (weakref.ref(part), part_name)
        self.roots[name] = weakref.ref(module)
        self.changed = True
        self.version += 1

    def _stands(self, root: str) -> bool:
        """Whether a root is still there."""
        return root in self.roots and self.roots[root]() is not None

    def again(self) -> None:
        """Look at the roots once more: parts may have been added or replaced."""
        for name, known in list(self.roots.items()):
            module = known()
            if module is None:
                del self.roots[name]
                continue
            for part_name, part in parts(module, name):
                there = self._modules.get(id(part))
                if there is None or there[0]() is not part:
                    self._modules[id(part)] = (weakref.ref(part), part_name)
                    self.version += 1

    def living(self) -> list[tuple[str, Any]]:
        """The roots that are alive, with their names."""
        return [(name, module) for name, known in self.roots.items() if (module := known()) is not None]


def _plain(name: str) -> str:
    return name.lstrip("_") or name


def user_frames(start: FrameType | None) -> Iterator[FrameType]:
    """The frames of the person's code from the innermost outwards."""
    frame, count = start, 0
    while frame is not None and count < _FRAMES:
        if is_users(frame.f_code.co_filename):
            count += 1
            yield frame
        frame = frame.f_back


def names_in_sight(frame: FrameType | None) -> Iterator[tuple[str, Any]]:
    """What the variables of the person's functions from a frame on stand for, and the globals of each, with their names."""
    for here in user_frames(frame):
        local = variables(here)
        for holder in (local, here.f_globals) if local is not here.f_globals else (local,):
            yield from list(holder.items())


def names_of(held: Any, frame: FrameType | None) -> list[str]:
    """The names by which variables and attributes in the person's code hold this very object, those of inner functions first."""
    found: list[str] = []
    for here in user_frames(frame):
        attributes = attributes_of(owner_of(here))
        for holder in (variables(here), attributes, here.f_globals):
            for name, value in list(holder.items()):
                if value is held and name not in found:
                    found.append(str(name))
    return found


def variable_of(module: Any, frame: FrameType | None = None) -> str | None:
    """The name of the variable or attribute in the person's code that holds a module, or None."""
    for here in user_frames(frame or sys._getframe(1)):
        for scope in (variables(here), here.f_globals):
            for name, value in list(scope.items()):
                if name == "self" or name.startswith("__"):
                    continue
                if _holds(value, module):
                    return str(name)
        attributes = attributes_of(owner_of(here))
        for holder in (attributes, attributes.get("_modules") or {}):
            for name, value in list(holder.items()):
                if _holds(value, module):
                    return str(name).lstrip("_")
    return None


def _holds(value: Any, module: Any) -> bool:
    if value is module:
        return True
    # Only what is itself a module is looked into: an attribute of anything else could run the person's code.
    return is_a(value, sys.modules["torch"].nn.Module) and inner(value) is module


def modules_in_sight(frame: FrameType | None = None) -> Iterator[tuple[str, Any]]:
    """Modules that variables and attributes of the person's calling code hold, with the name of each."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    kind = torch.nn.Module
    seen: set[int] = set()
    for here in user_frames(frame or sys._getframe(1)):
        local = variables(here)
        attributes = attributes_of(local.get("self"))
        holders = [local, attributes]
        if is_a(attributes.get("_modules"), dict):
            holders.append(attributes["_modules"])
        if local is not here.f_globals:
            holders.append(here.f_globals)
        for holder in holders:
            for name, value in list(holder.items()):
                if is_a(value, kind) and name != "self" and id(value) not in seen:
                    seen.add(id(value))
                    yield name.lstrip("_") or name, value
