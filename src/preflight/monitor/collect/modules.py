"""Forward passes: of the modules that the person's code calls, and in detailed iterations of their parts."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

from . import averages, carried, draws, encodings, leaves, outputs
from .aside import Aside
from .carried import Carried
from .digests import Digests, few
from .draws import Draws
from .encodings import Encodings
from .entry import Entry, clock
from .looks import Marks, Untouched, alike, all_given
from .modal import Modal
from .naming import Names
from .parts import Begun, Part, Parts
from .patching import Patches
from .places import beyond_library, in_forward, user_frame
from .plain import empty
from .ratios import Ratios
from .recorder import Recorder
from .repeated import Repeated
from .reread import Views
from .reruns import NAME as RERUN
from .reruns import Reruns
from .sequences import Sequences

WRITTEN = "written"
FOLLOWED = "followed"
_Pass = tuple[weakref.ref[Any], Entry | Begun | str, int]
"""The module, what was told of its beginning (its context alone where the pass is only counted), and what it wraps."""


class _Thread(threading.local):
    """The forward passes that a thread is in: the module, what was told of its beginning, and what it wraps.

    Modules are held weakly: a pass that raised stays here until the next one, and must not keep its model alive.
    """

    def __init__(self) -> None:
        self.open: list[_Pass] = []


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
        self.parts = Parts(recorder, names, digests)
        self.repeated = Repeated(recorder)
        self.reruns = Reruns(recorder, names) if recorder.wants(RERUN) else None
        self.aside = Aside(recorder.torch, self.before, self.after)
        self.leaves: leaves.Leaves | None = None
        self.draws: Draws | None = None
        self.ratios: Ratios | None = None
        self.views: Views | None = None
        self.carried = Carried(recorder) if recorder.wants(carried.NAME) else None
        self.encodings = Encodings(recorder) if recorder.wants(encodings.NAME) else None
        self._hidden_found = 0  # modules that train within another one without being a part of it
        self.evaluating: Callable[[bool], Any] | None = None  # told where a model in evaluation mode begins and ends

    def install(self, patches: Patches) -> None:
        """Put the hooks in place."""
        self.aside.install(patches)
        self.sequences.install(patches)
        hooks = self.recorder.torch.nn.modules.module
        if hasattr(hooks, "_has_any_global_hook"):
            # A compiled module warns of hooks on all modules, which the program did not ask for; of its own it still hears.
            patches.replace(hooks, "_has_any_global_hook", lambda: _any_other(hooks, self))

    def clear(self) -> None:
        """Forget forward passes that ended with an exception, and hand over what is known of their parts."""
        if self.thread.open:
            self.thread.open.clear()
            if self.evaluating is not None:
                self.evaluating(False)
        self.aside.back()
        self.parts.hand_over()

    def before(self, module: Any, args: Any) -> None:
        """A forward pass begins."""
        if self.compiling():
            return
        recorder = self.recorder
        opened = self.thread.open
        if not opened:
            if recorder.detail:
                self.sequences.hooks.look()  # first of all: also where nothing is told of this pass
            elif recorder.repeats and self._only_counted(module, args, opened):
                return
            self._begins(module, args, opened)
            return
        outermost = opened[0][0]()
        if outermost is None or outermost is module:  # it raised, and is gone; or it raised the last time
            if outermost is None or self._told():
                opened.clear()
            self._begins(module, args, opened)
            return
        if not (recorder.detail and self.parts_wanted):
            return  # a part, where parts are not told
        thread = recorder.thread
        if recorder.backward_depth or recorder.halted or recorder.ended or thread.busy:
            return  # as ``_told`` says
        if opened[-1][2] == id(module):
            return  # what a wrapper holds and calls
        # As in ``Work``, without what that costs: there are very many parts.
        began = clock()
        thread.busy = True
        try:
            part = self.parts.known(module) or self._part(module)
            opened.append((part.module, self.parts.enter(part, bool(module.training), args), part.inside))
            if self.reruns is not None and isinstance(module, self.modal.dropout) and self._incomplete():
                self.reruns.first(module, args)
            if self.views is not None:
                self.views.look(part.name, args, module)
        except Exception as error:
            recorder.trouble("forward", error)
        thread.busy = False
        recorder.spent += clock() - began

    def _only_counted(self, module: Any, args: Any, opened: list[_Pass]) -> bool:
        """Whether a pass that begins came so often from this place, with nothing between, that it is not told."""
        recorder = self.recorder
        if recorder.backward_depth or not recorder.active():
            return False
        part = self.parts.known(module)
        if part is None:
            return False
        began = clock()
        left = False
        try:
            frame = user_frame(sys._getframe(2))
            stack = recorder.thread.stack
            at = (frame.f_code, frame.f_lineno) if frame is not None else None
            context = recorder.context()
            place = (id(module), module.training, context, at, stack[-1] if stack else -1, len(args))
            left = self.repeated.leaves_out(part.name, place, context.startswith("grad"))
            if left:
                opened.append((part.module, context, part.inside))
                self.aside.step(module)
        except Exception as error:
            recorder.trouble("forward", error)
        recorder.spent += clock() - began
        return left

    def _told(self) -> bool:
        """Whether passes that begin now are told at all: not within a backward pass, which computes some once more."""
        return not self.recorder.backward_depth and self.recorder.active()

    def _incomplete(self) -> bool:
        """Whether a backward pass may have to compute a pass again: its graph is not recorded, or packed by hooks."""
        return self.sequences.packed or not self.recorder.torch.is_grad_enabled()

    def graphed(self) -> bool:
        """Whether the innermost pass that goes on was begun where gradients are recorded; True where none is told of."""
        if not self.thread.open:
            return True
        begun = self.thread.open[-1][1]
        context = begun.context if isinstance(begun, Entry) else begun if isinstance(begun, str) else begun[2]
        return str(context).startswith("grad")

    def _begins(self, module: Any, args: Any, opened: list[_Pass]) -> None:
        """A pass begins that may be one of a model."""
        if not self.recorder.backward_depth and self.recorder.active():  # as ``_told`` says
            spent = self.recorder.spent
            with self.recorder.work("forward"):
                self._enter_root(module, args, opened)
            self.repeated.spent += self.recorder.spent - spent
        elif self.recorder.backward_depth and self.recorder.detail and self.reruns is not None:
            self.reruns.again(module, args)

    def _enter_root(self, module: Any, args: Any, opened: list[_Pass]) -> None:
        recorder = self.recorder
        part = self.parts.known(module)
        first = part.first_parameter(module) if part is not None else next(module.parameters(), None)
        if first is None or empty(first):
            return  # a loss or an activation, or a rehearsal
        if recorder.torch.is_grad_enabled():
            recorder.training = bool(module.training)
            if module.training:
                recorder.begins("forward")
        elif not module.training:
            recorder.evaluated = True
        if part is None:
            name = self.names.root(module, sys._getframe(2))
            part = self.parts.learn(module, name, self.modal.base(type(module)))
        name = part.name
        seen = {**part.told[bool(module.training)], **self.modal.of(name, module)}
        training, grad = module.training, recorder.torch.is_grad_enabled()
        if recorder.detail and training and grad and self.leaves is not None and recorder.wants(leaves.NAME):
            self.leaves.look(module, name)
        if recorder.detail and training and grad and recorder.wants("alike"):
            same = alike(recorder.torch, few(args, recorder.torch.Tensor))
            if same is not None:
                seen["alike"] = same
        if recorder.detail and training and grad and self.carried is not None and len(args) > 1:
            seen["carried"] = self.carried.came(name, args)
        if recorder.detail and self.views is not None:
            self.views.given(module, args)
        if not all_given(module, len(args)):
            seen["by_name"] = True
        if grad and not first.is_leaf:
            seen["computed"] = True  # as a functional call exchanges all parameters: gradients go on through these
        if grad and "." in name and in_forward(sys._getframe(2)):
            seen["in_forward"] = True  # a part of a model whose own pass is not told: its ``forward`` was called
        entry = recorder.enter("forward", name, seen)
        if "autocast" in entry.context:
            recorder.casts_used = True
        if grad:
            outer = beyond_library(sys._getframe(2))
            recorder.called = (outer, entry.place) if outer is not None else None
        elif recorder.wants(averages.NAME):
            averages.look(recorder, module, name)
        entry.about = self.untouched.marks(module, not training and not grad and recorder.wants("evaluation"))
        opened.append((part.module, entry, part.inside))
        if self.evaluating is not None and not training:
            self.evaluating(True)
        self.digests.beginning(entry, args)
        if not (recorder.detail and self.parts_wanted):
            self.aside.step(module)

    def _part(self, module: Any) -> Part:
        """What is told of a part whose pass is told for the first time, or under another name than the last time."""
        known, hidden = self.names.of(module), self._hidden_found
        part = self.parts.learn(module, known or self._hidden(module), self.modal.base(type(module)))
        if self._hidden_found > hidden:
            for told in part.told:
                told["hidden"] = self._hidden_found
        if self.names.of(module) is None:
            self.parts.forget(module)  # it may get parameters that train, and with them a name
        return part

    def _hidden(self, module: Any) -> str:
        """The name of a module that is called inside of another one but is no part of it: it may train unnoticed."""
        self.names.again()
        known = self.names.of(module)
        if known is not None:
            return known
        if not self.recorder.torch.is_grad_enabled() or not any(one.requires_grad for one in module.parameters()):
            return type(module).__name__
        self._hidden_found += 1
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
        begun: Any = opened.pop()[1]
        if begun.__class__ is str:  # there are very many parts, and one call less for each
            return  # it is only counted
        recorder = self.recorder
        thread = recorder.thread
        if recorder.ended or thread.busy:
            return  # what began before a halt is still told
        if isinstance(begun, Entry):
            spent = recorder.spent
            with recorder.work("forward"):
                recorder.within("forward", self._leave_root, begun, module, args, output)
                if not opened:
                    self.parts.hand_over()
            self.repeated.was_told(recorder.spent - spent)
            return
        began = clock()
        thread.busy = True
        try:
            self.parts.leave(begun, output)
            if self.encodings is not None and _holds_own(module):
                self.encodings.look(module, begun[-1].name, args, output)
        except Exception as error:
            recorder.trouble("forward", error)
        thread.busy = False
        recorder.spent += clock() - began

    def _leave_root(self, entry: Entry, module: Any, args: Any, output: Any) -> None:
        if self.evaluating is not None:
            self.evaluating(False)
        self.digests.leaving(entry.number, entry.object, output)
        if self.recorder.detail and module.training and self.recorder.wants(outputs.NAME):
            outputs.look(self.recorder, entry, args, output)
        if self.recorder.detail and module.training and self.carried is not None and len(args) > 1:
            self.carried.gave(entry.object, output)
        if (
            self.recorder.detail
            and self.draws is not None
            and self.recorder.wants(draws.NAME)
            and _learns(module, output)
        ):
            self.draws.answered(args, output)
        if self.recorder.detail and self.ratios is not None and _learns(module, output):
            self.ratios.given(args)
        marks, entry.about = entry.about, None
        if marks is not None:
            self._written(entry, module, marks)
        self.recorder.leave(entry)

    def _written(self, entry: Entry, module: Any, marks: Marks) -> None:
        """Tell of parameters and buffers that an evaluation may have changed how far it did change them."""
        found = self.untouched.written(module, marks)
        if found is None:
            return
        names, shares = found
        recorder = self.recorder
        head = (recorder.number(), entry.began, recorder.iteration, recorder.step)

        def rows(values: list[float]) -> list[tuple[str, tuple[Any, ...]]]:
            told = zip(names, values, strict=True)
            return [
                ("scalar", (*head, FOLLOWED if kept else WRITTEN, f"{entry.object}.{name}", value))
                for (name, kept), value in told
            ]

        recorder.later(shares, rows)


def _holds_own(module: Any) -> bool:
    """Whether a layer that is none of torch's holds buffers, such as a table of positions."""
    return bool(module._buffers) and not type(module).__module__.startswith("torch.")


def _learns(module: Any, output: Any) -> bool:
    """Whether a pass is one of training that gives a tensor with a graph."""
    return bool(module.training and getattr(output, "requires_grad", False))


def _any_other(hooks: Any, own: Forwards) -> bool:
    """Whether the program has set hooks on all modules itself."""
    before, after = hooks._global_forward_pre_hooks, hooks._global_forward_hooks
    others = any(hook != own.before for hook in before.values()) or any(hook != own.after for hook in after.values())
    return bool(others or hooks._global_backward_hooks or hooks._global_backward_pre_hooks)
