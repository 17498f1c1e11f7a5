"""Watches where modules are made, and which are called inside of a network without being a part of it."""

from __future__ import annotations

import sys
import weakref
from types import FrameType
from typing import Any

import torch

from preflight.dryrun.virtual.watch.observations import Observations

_DROPOUTS = (torch.nn.modules.dropout._DropoutNd,)
_DEEP = 2
"""Modules are looked for in containers within containers, and no further."""


class Belonging:
    """Where modules come from.

    Args:
        seen: Takes the notes.
    """

    def __init__(self, seen: Observations) -> None:
        self.seen, self.progress = seen, seen.progress
        self._made: dict[int, tuple[weakref.ref[Any], str, str]] = {}
        self._parts: dict[int, set[int]] = {}
        self._running: list[tuple[Any, bool]] = []

    def install(self) -> None:
        """Watch from now on."""
        make, made = torch.nn.Module.__init__, self._made

        def begun(module: Any, *args: Any, **kwargs: Any) -> None:
            make(module, *args, **kwargs)
            made[id(module)] = (weakref.ref(module), self._line(module), self.progress.module)

        torch.nn.Module.__init__ = begun  # type: ignore[method-assign, unused-ignore]

    def line_of(self, module: Any) -> str:
        """Return ``file:line`` where a module was made; empty where that was not seen."""
        known = self._made.get(id(module))
        return known[1] if known is not None and known[0]() is module else ""

    def begin(self) -> None:
        """The script calls a module itself."""
        self._running.clear()

    def enter(self, module: Any, first: bool) -> str:
        """A module's forward begins.

        Args:
            module: The module.
            first: Whether this is its first call.

        Returns:
            Who keeps it, as ``Class.attribute``, where it is a part of no network and a plain container holds it.
        """
        strange = bool(self._running) and (first or self._within(module)) and self._strange(module)
        kept = ""
        if strange and not any(known for _, known in self._running):
            kept = self._keeper(module)
            if not kept:
                self._note_new(module)
        self._running.append((module, strange))
        return kept

    def leave(self) -> None:
        """A module's forward ends."""
        if self._running:
            self._running.pop()

    def _line(self, module: Any) -> str:
        """Return the place of the person's own code that makes a module, its own constructors left out."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            if self.progress.owns_code(code):
                own = code.co_name == "__init__" and code.co_argcount and frame.f_locals.get(code.co_varnames[0])
                if own is not module:
                    return self.progress.shown(code.co_filename, frame.f_lineno)
            frame = frame.f_back
        return self.progress.script_line

    def _within(self, module: Any) -> bool:
        """Whether a module was made while a network ran."""
        known = self._made.get(id(module))
        return known is not None and bool(known[2]) and known[0]() is module

    def _strange(self, module: Any) -> bool:
        """Whether a module is no part of the network that runs."""
        top = self._running[0][0]
        parts = self._parts.get(id(top))
        if parts is None or id(module) not in parts:
            parts = self._parts[id(top)] = {id(part) for part in top.modules()}
        return id(module) not in parts and not getattr(module, "_is_replica", False)

    def _keeper(self, module: Any) -> str:
        """Return which attribute of a running module holds a module in a plain container."""
        if not any(True for _ in module.parameters()):
            return ""
        for owner, _ in reversed(self._running):
            for name, value in vars(owner).items():
                if not name.startswith("_") and _holds(value, module, _DEEP):
                    return f"{type(owner).__name__}.{name}"
        return ""

    def _note_new(self, module: Any) -> None:
        """Note a layer that learns, or dropout, that was made in this forward pass."""
        if not self._within(module) or not torch.is_grad_enabled():
            return
        learns = sum(p.numel() for p in module.parameters() if p.requires_grad)
        drops = isinstance(module, _DROPOUTS) and module.p > 0 and module.training
        if learns or drops:
            self.seen.note(
                "layer made in forward", line=self.line_of(module), kind=type(module).__name__, elements=learns,
                within=type(self._running[-1][0]).__name__,
            )  # fmt: skip


def _holds(value: Any, module: Any, depth: int) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, (list, tuple, set)):
        return False
    return any(item is module or (depth > 1 and _holds(item, module, depth - 1)) for item in value)
