"""Forward passes: of the modules that the person's code calls, and in detailed iterations of their parts."""

from __future__ import annotations

import sys
import threading
import weakref
from typing import Any

from .digests import Digests, few
from .entry import Entry
from .looks import Marks, Untouched, alike, all_given
from .modal import Modal
from .naming import Names, inner
from .patching import Patches
from .recorder import Recorder
from .sequences import Sequences

_MOST_PARTS = 100_000
WRITTEN = "written"
_Pass = tuple[weakref.ref[Any], Entry | None, int]


class _Thread(threading.local):
    """The forward passes that a thread is in: the module, its entry when it is recorded, and what it wraps.

    Modules are held weakly: a pass that raised stays here until the next one, and must not keep its model alive.
    """

    def __init__(self) -> None:
        self.open: list[_Pass] = []


class _Part:
    """What is told of a module at each of its passes, put together once."""

    __slots__ = ("inside", "module", "name", "told", "version")

    def __init__(self, module: Any, name: str, base: str | None, version: int) -> None:
        self.module = weakref.ref(module)
        self.name = name
        self.version = version
        self.inside = id(inner(module))
        more = {"base": base} if base else {}
        # By whether it is in training mode; rows share these, nobody changes them.
        self.told = [{"training": mode, "type": type(module).__name__, **more} for mode in (False, True)]


class Forwards:
    """Hooks on every module of the process."""

    def __init__(self, recorder: Recorder, names: Names, digests: Digests, sequences: Sequences) -> None:
        self.recorder = recorder
        self.names = names
        self.digests = digests
        self.sequences = sequences
        self.modal = Modal(recorder, names)
        self.untouched = Untouched(recorder.torch)
        self.thread = _Thread()
        self.compiling = recorder.torch.compiler.is_compiling
        self.parts_wanted = recorder.wants("module", "tensor")
        self._parts: dict[int, _Part] = {}

    def install(self, patches: Patches) -> None:
        """Put the hooks in place."""
        hooks = self.recorder.torch.nn.modules.module
        patches.keep(hooks.register_module_forward_pre_hook(self.before))
        patches.keep(hooks.register_module_forward_hook(self.after))
        self.sequences.install(patches)
        if hasattr(hooks, "_has_any_global_hook"):
            # A compiled module warns of hooks on all modules, which the program did not ask for; of its own it still hears.
            patches.replace(hooks, "_has_any_global_hook", lambda: _any_other(hooks, self))

    def clear(self) -> None:
        """Forget forward passes that ended with an exception."""
        if self.thread.open:
            self.thread.open.clear()

    def before(self, module: Any, args: Any) -> None:
        """A forward pass begins."""
        if self.compiling():
            return
        recorder = self.recorder
        if recorder.detail:
            self.sequences.hooked()  # first of all: also where nothing is told of this pass
        opened = self.thread.open
        outermost = opened[0][0]() if opened else None
        if opened and outermost is None:
            opened.clear()  # it raised, and is gone
        if opened and outermost is not module and not (recorder.detail and self.parts_wanted):
            return  # a part, where parts are not told
        if recorder.backward_depth or not recorder.active():
            return
        if opened:
            if outermost is module:
                opened.clear()  # it raised the last time
            elif opened[-1][2] == id(module):
                return  # what a wrapper holds and calls
        with recorder.work("forward"):
            if opened:
                self._enter_part(module, args, opened)
            else:
                self._enter_root(module, args, opened)

    def _enter_root(self, module: Any, args: Any, opened: list[_Pass]) -> None:
        recorder = self.recorder
        if next(module.parameters(), None) is None:
            return  # a loss or an activation
        if recorder.torch.is_grad_enabled():
            if module.training:
                recorder.begins("forward")
        elif not module.training:
            recorder.evaluated = True
        name = self.names.root(module, sys._getframe(2))
        part = self._part(module, name)
        seen = {**part.told[bool(module.training)], **self.modal.of(name, module)}
        training, grad = module.training, recorder.torch.is_grad_enabled()
        if recorder.detail and training and grad and recorder.wants("alike"):
            same = alike(recorder.torch, few(args, recorder.torch.Tensor))
            if same is not None:
                seen["alike"] = same
        if not all_given(module, len(args)):
            seen["by_name"] = True
        entry = recorder.enter("forward", name, seen)
        entry.about = self.untouched.marks(module, not training and not grad and recorder.wants("evaluation"))
        opened.append((part.module, entry, part.inside))
        self.digests.entering(entry, args, root=True)

    def _enter_part(self, module: Any, args: Any, opened: list[_Pass]) -> None:
        part = self._parts.get(id(module))
        if part is None or part.version != self.names.version or part.module() is not module:
            name = self.names.of(module) or self._hidden(module)
            part = self._part(module, name)
            if self.names.of(module) is None:
                del self._parts[id(module)]  # it may get parameters that train, and with them a name
        entry = self.recorder.enter("module", part.name, part.told[bool(module.training)], placed=False)
        opened.append((part.module, entry, part.inside))
        self.digests.entering(entry, args, root=False)

    def _part(self, module: Any, name: str) -> _Part:
        """What is told of a module, remembered or put together."""
        part = self._parts.get(id(module))
        if part is None or part.name != name or part.version != self.names.version or part.module() is not module:
            if len(self._parts) >= _MOST_PARTS:
                self._parts.clear()  # a program that makes modules as it goes
            part = _Part(module, name, self.modal.base(type(module)), self.names.version)
            self._parts[id(module)] = part
        return part

    def _hidden(self, module: Any) -> str:
        """The name of a module that is called inside of another one but is no part of it: it may train unnoticed."""
        self.names.again()
        known = self.names.of(module)
        if known is not None:
            return known
        if not self.recorder.torch.is_grad_enabled() or not any(one.requires_grad for one in module.parameters()):
            return type(module).__name__
        return self.names.root(module, sys._getframe(3))

    def after(self, module: Any, args: Any, output: Any) -> None:
        """A forward pass ends."""
        if self.compiling():
            return  # before anything is looked at: the compiler follows this too
        opened = self.thread.open
        if not opened:
            return
        if opened[-1][0]() is not module:
            if not self.recorder.detail or all(one[0]() is not module for one in opened):
                return
            while opened[-1][0]() is not module:
                opened.pop()
        entry = opened.pop()[1]
        recorder = self.recorder
        if entry is None or not recorder.active():
            return
        with recorder.work("forward"):
            self.digests.leaving(entry, output)
            marks, entry.about = entry.about, None
            if marks is not None:
                self._written(entry, module, marks)
            recorder.leave(entry)
            if not opened:
                self.digests.hand_over()

    def _written(self, entry: Entry, module: Any, marks: Marks) -> None:
        """Tell of parameters that an evaluation may have changed which share of their numbers it did change."""
        found = self.untouched.written(module, marks)
        if found is None:
            return
        names, shares = found
        recorder = self.recorder
        head = (recorder.number(), entry.began, recorder.iteration, recorder.step, WRITTEN)

        def rows(values: list[float]) -> list[tuple[str, tuple[Any, ...]]]:
            told = zip(names, values, strict=True)
            return [("scalar", (*head, f"{entry.object}.{name}", value)) for name, value in told]

        recorder.later(shares, rows)


def _any_other(hooks: Any, own: Forwards) -> bool:
    """Whether the program has set hooks on all modules itself."""
    before, after = hooks._global_forward_pre_hooks, hooks._global_forward_hooks
    others = any(hook != own.before for hook in before.values()) or any(hook != own.after for hook in after.values())
    return bool(others or hooks._global_backward_hooks or hooks._global_backward_pre_hooks)
