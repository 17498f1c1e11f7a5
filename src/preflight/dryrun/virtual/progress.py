"""Where the run is: its phase, the steps done, the module that runs, the line of the script."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import torch

from preflight.dryrun.virtual import private

MOST = 3
"""A run whose loops do not end by themselves is ended after so many times the steps that were asked for."""


_OURS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "")
_TORCH = os.path.join(os.path.dirname(torch.__file__), "")


PATIENCE = 200
"""A script that catches the end so often does not let itself be ended."""


class Stop(BaseException):
    """The run has done what was asked; a BaseException, so that a script's ``except Exception`` lets it pass."""


class Progress:
    """The state of the run.

    Args:
        root: Folder of the person's own code.
        steps: Optimizer steps after which the run is ended.
    """

    def __init__(self, root: str, steps: int) -> None:
        self.root, self.limit = os.path.join(os.path.realpath(root), ""), steps
        self.last = MOST * steps
        self.step = 0
        self.phase = "init"
        self.backwards = 0
        self.calls = 0
        self.graph_calls = 0
        self.compiled: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # by the script, by id
        self.regions = 0  # compiled ones in which the script is
        self.training_calls = 0
        self.pending = False  # a backward pass has been, and no step since
        self.by_hand = False
        self.stopping = False
        self.give_up: Callable[[], None] | None = None
        self._stops = 0
        self.after_step: list[Callable[[], None]] = []
        self.script_line = ""
        self.modules: list[str] = []
        self.origins: dict[int, tuple[str, str]] = {}
        self._compiled_nodes: set[int] = set()
        self.counts: dict[int, int] = {}
        self._watched: Counter[int] = Counter()  # depths at which loops run inside modules
        self._called: dict[int, list[int]] = {}
        self._names: dict[int, str] = {}
        self._owned: dict[str, bool] = {}
        self._user: dict[str, str] = {}  # how a file is shown; empty where it is not the person's own
        self._main = threading.get_ident()

    def where(self) -> tuple[str, int, str, str]:
        """Return phase, step, module path and ``file:line``."""
        number = private.running_node_number()
        if number is not None:
            module, line = self.origins.get(number, ("", self.script_line))
            return self.phase, self.step, module, line
        return self.phase, self.step, self.module, self.line()

    @property
    def in_compiled(self) -> bool:
        """Whether what runs is compiled, or is the backward pass of what was."""
        number = private.running_node_number()
        return self.regions > 0 if number is None else number in self._compiled_nodes

    @property
    def module(self) -> str:
        """The path of the module whose forward runs."""
        return self.modules[-1] if self.modules else ""

    def note_origin(self) -> str:
        """Remember where the next node of the graph is made: its backward belongs to the same module and line."""
        line = self.line()
        number = private.sequence_number() - 1
        self.origins[number] = (self.module, line)
        if self.regions:
            self._compiled_nodes.add(number)
        return line

    def line(self) -> str:
        """Return the innermost place in the person's own code."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            name = frame.f_code.co_filename
            shown = self._user.get(name)
            if shown is None:
                shown = self._user[name] = os.path.relpath(name, self.root) if self.owns(name) else ""
            if shown:
                return f"{shown}:{frame.f_lineno}"
            frame = frame.f_back
        return self.script_line

    def direct(self) -> bool:
        """Whether the script's own code called what runs, rather than a library other than PyTorch."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            name = frame.f_code.co_filename
            if not name.startswith((_TORCH, _OURS, "<")):
                return bool(self._user.get(name)) or self.owns(name)
            frame = frame.f_back
        return False

    def shown(self, filename: str, number: int) -> str:
        """Return ``file:line`` of a file of the person's own."""
        return f"{os.path.relpath(filename, self.root)}:{number}"

    def name_of(self, module: Any) -> str:
        """Return the path of a module that was called, or its class."""
        return self._names.get(id(module), type(module).__name__)

    def owns_code(self, code: CodeType) -> bool:
        """Whether code is the person's own; asked often, so files are looked at once."""
        shown = self._user.get(code.co_filename)
        if shown is None:
            name = code.co_filename
            shown = self._user[name] = os.path.relpath(name, self.root) if self.owns(name) else ""
        return bool(shown)

    def owns(self, filename: str) -> bool:
        """Whether a file is the person's own code."""
        known = self._owned.get(filename)
        if known is None:
            path = os.path.realpath(filename)
            # Python's own modules in "<frozen abc>" are no files, also where a name would lie in the working folder.
            inside = not filename.startswith("<frozen") and path.startswith(self.root) and not path.startswith(_OURS)
            known = self._owned[filename] = inside and f"{os.sep}site-packages{os.sep}" not in path
        return known

    def enter_module(self, module: Any, graph: bool) -> None:
        """A module's forward begins.

        Args:
            module: The module.
            graph: Whether gradients are recorded.
        """
        self.regions += self.compiled.get(id(module)) is module
        if not self.modules:
            self.calls += 1
            self.graph_calls += graph
            self.training_calls += bool(module.training)
        name = self._names.get(id(module))
        if name is None or not self.modules:
            for path, part in module.named_modules():
                self._names.setdefault(id(part), path or type(module).__name__)
            name = self._names[id(module)]
        if self._watched and self._watched[len(self.modules)]:
            self._called[len(self.modules)].append(id(module))
        self.modules.append(name)
        if self.phase == "init":
            self.phase = "forward"

    def watch_calls(self, depth: int, more: int) -> None:
        """A loop begins (1) or ends (-1) below so many modules; outside of any, nobody asks what it calls."""
        if depth:
            self._watched[depth] += more
            self._watched = +self._watched
            self._called.setdefault(depth, []).clear()

    def called_in(self, depth: int) -> list[int]:
        """Return the modules called below so many others since this was asked last."""
        called = self._called.get(depth, [])
        self._called[depth] = []
        return called

    def leave_module(self, module: Any, *_: Any) -> None:
        """A module's forward ends."""
        self.regions -= self.compiled.get(id(module)) is module
        if self.modules:
            self.modules.pop()

    def end_step(self, optimizer: Any) -> None:
        """An optimizer's step is done."""
        self.by_hand, self.pending = optimizer is self, False
        count = self.counts[id(optimizer)] = self.counts.get(id(optimizer), 0) + 1
        self.phase = "forward"
        before, self.step = self.step, max(self.step, count)
        self.origins.clear()
        self._compiled_nodes.clear()
        for call in self.after_step if self.step > before else ():
            call()
        if self.step >= self.last:
            self.stop()

    def stop(self) -> None:
        """End the run; a script that catches this time and again is ended without its consent.

        Raises:
            Stop: Always.
        """
        self.stopping = True
        self._stops += 1
        if self._stops > PATIENCE and self.give_up is not None:
            self.give_up()
        raise Stop

    def change_parameter(self) -> None:
        """A parameter is changed in place: the first time after a backward pass that is a step, where no optimizer takes it."""
        if self.pending and self.phase not in ("backward", "optimizer") and (self.by_hand or not self.counts):
            self.end_step(self)
