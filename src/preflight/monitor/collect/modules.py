"""Forward passes: of the modules that the person's code calls, and in detailed iterations of their parts."""

from __future__ import annotations

import sys
import threading
from typing import Any

from .digests import Digests
from .modal import Modal
from .naming import Names, inner
from .patching import Patches
from .recorder import Entry, Recorder


class _Thread(threading.local):
    """The forward passes that a thread is in: the module, and its entry when it is recorded."""

    def __init__(self) -> None:
        self.open: list[tuple[Any, Entry | None]] = []


class Forwards:
    """Hooks on every module of the process."""

    def __init__(self, recorder: Recorder, names: Names, digests: Digests) -> None:
        self.recorder = recorder
        self.names = names
        self.digests = digests
        self.modal = Modal(recorder, names)
        self.thread = _Thread()
        self.compiling = recorder.torch.compiler.is_compiling
        self.parts_wanted = recorder.wants("module", "tensor")

    def install(self, patches: Patches) -> None:
        """Put the hooks in place."""
        hooks = self.recorder.torch.nn.modules.module
        patches.keep(hooks.register_module_forward_pre_hook(self.before))
        patches.keep(hooks.register_module_forward_hook(self.after))
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
        if recorder.backward_depth or recorder.ended or not recorder.active():
            return
        opened = self.thread.open
        if opened and opened[0][0] is module:
            opened.clear()  # it raised the last time
        if opened and (not recorder.detail or not self.parts_wanted or inner(opened[-1][0]) is module):
            return  # a part, or what a wrapper holds and calls
        with recorder.work("forward"):
            self._enter(module, args, opened)

    def _enter(self, module: Any, args: Any, opened: list[tuple[Any, Entry | None]]) -> None:
        recorder = self.recorder
        root = not opened
        if root:
            if next(module.parameters(), None) is None:
                return  # a loss or an activation
            training = recorder.torch.is_grad_enabled() and module.training
            if training:
                recorder.begins("forward")
            name = self.names.root(module, sys._getframe(2))
        else:
            name = self.names.of(module) or self._hidden(module)
        args_seen = {"training": module.training, "type": type(module).__name__}
        base = self.modal.base(type(module))
        if base:
            args_seen["base"] = base
        if root:
            args_seen.update(self.modal.of(name, module))
        entry = recorder.enter("forward" if root else "module", name, args_seen, placed=root)
        opened.append((module, entry))
        if root or recorder.detail:
            self.digests.tensors(entry, "in", args, bits=root)

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
            return
        opened = self.thread.open
        if not opened:
            return
        if opened[-1][0] is not module:
            if not self.recorder.detail or all(one is not module for one, _ in opened):
                return
            while opened[-1][0] is not module:
                opened.pop()
        entry = opened.pop()[1]
        if entry is None or not self.recorder.active():
            return
        with self.recorder.work("forward"):
            self.digests.tensors(entry, "out", output, bits=False)
            self.recorder.leave(entry)
            if not opened:
                self.digests.hand_over()


def _any_other(hooks: Any, own: Forwards) -> bool:
    """Whether the program has set hooks on all modules itself."""
    before, after = hooks._global_forward_pre_hooks, hooks._global_forward_hooks
    others = any(hook != own.before for hook in before.values()) or any(hook != own.after for hook in after.values())
    return bool(others or hooks._global_backward_hooks or hooks._global_backward_pre_hooks)
