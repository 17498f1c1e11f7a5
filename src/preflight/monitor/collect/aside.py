"""Takes the hooks on all modules away while a pass runs of which only the whole is told.

A hook on all modules sends each call of each part through a slower way in torch, although nothing is told of the parts
in most iterations. They are put back when the pass ends, however it ends: by a hook on the model that was called.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

from .patching import Patches

_END = contextlib.nullcontext().__exit__
"""Does nothing with three arguments, and can be copied and saved with a model that it was left on."""


def compiled() -> bool:
    """Whether a compiler made something in this process: what it made depends on which hooks and functions there were."""
    compiler = sys.modules.get("torch._dynamo.eval_frame")
    if compiler is None:
        return False
    # One that only steps aside itself is None here.
    made = getattr(compiler, "cached_backends", {0: True})
    return any(one is not None for one in list(made.values()))


class Aside:
    """Two hooks on all modules, which can step aside for the length of a pass."""

    def __init__(self, torch: Any, before: Callable[..., None], after: Callable[..., None]) -> None:
        self._torch = torch
        self._hooks = torch.nn.modules.module
        self._before = before
        self._after = after
        self._keys: tuple[int, int] | None = None
        self._away = False
        self._left: weakref.ref[Any] | None = None  # the model that still has the hook that ends a pass
        self._threads: set[int] = set()
        # Layers that look for hooks on themselves before they choose how to compute.
        nn = torch.nn
        self._choosy = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention, nn.DataParallel)

    def install(self, patches: Patches) -> None:
        """Put the hooks in place."""
        hooks = self._hooks
        first = hooks.register_module_forward_pre_hook(self._before)
        second = hooks.register_module_forward_hook(self._after)
        patches.keep(first)
        patches.keep(second)
        if hasattr(hooks, "_global_forward_pre_hooks") and hasattr(hooks, "_global_forward_hooks"):
            self._keys = first.id, second.id

    def step(self, module: Any) -> None:
        """Take the hooks away until the pass of a module that has just begun ends, where that changes nothing else."""
        self._threads.add(threading.get_ident())
        keys = self._keys
        if keys is None or self._away or len(self._threads) > 1 or not self._may(module):
            return
        before, after = self._hooks._global_forward_pre_hooks, self._hooks._global_forward_hooks
        if list(before) != [keys[0]] or list(after) != [keys[1]]:
            return  # the program's own would be in another order afterwards
        self._forget()
        own = module._forward_hooks
        own[keys[1]] = _Ending(self)
        own.move_to_end(keys[1], last=False)
        module._forward_hooks_always_called[keys[1]] = True
        self._left = weakref.ref(module)
        self._away = True
        del before[keys[0]], after[keys[1]]

    def _may(self, module: Any) -> bool:
        """Whether a hook on a module for a moment is noticed by nobody, and a compiler follows none of its parts."""
        kind = type(module)
        if kind.__module__.startswith("torch.") and kind is not self._torch.nn.Sequential:
            return False
        if isinstance(module, self._choosy) or getattr(module, "_compiled_call_impl", None) is not None:
            return False
        if not hasattr(module, "_forward_hooks_always_called") or self._torch._C._get_tracing_state() is not None:
            return False
        return not compiled()

    def back(self) -> None:
        """Put the hooks back where they are away, and take the one that ends the pass from its model."""
        if self._away:
            self._return()
        if self._left is not None:
            self._forget()

    def ended(self, module: Any, args: Any, output: Any) -> None:
        """The pass has ended."""
        if self._away:
            self._return()
        if sys.exc_info()[1] is None:
            self._forget()
        elif self._keys is not None and self._keys[1] in module._forward_hooks:
            # Perhaps by this exception: then torch goes through the hooks just now, and none may be taken away.
            module._forward_hooks[self._keys[1]] = _END
            if output is None:
                return  # what is open of the pass is forgotten at the next one
        self._after(module, args, output)

    def _return(self) -> None:
        self._away = False
        if self._keys is not None:
            self._hooks._global_forward_pre_hooks[self._keys[0]] = self._before
            self._hooks._global_forward_hooks[self._keys[1]] = self._after

    def _forget(self) -> None:
        """Take the hook that ends a pass from the model that still has it."""
        known, self._left = self._left, None
        module = known() if known is not None else None
        if module is not None and self._keys is not None:
            module._forward_hooks.pop(self._keys[1], None)
            module._forward_hooks_always_called.pop(self._keys[1], None)


class _Ending:
    """The hook that ends a pass; of a copy of the model, or of one that is saved within the pass, it does nothing."""

    __slots__ = ("_aside",)

    def __init__(self, aside: Aside) -> None:
        self._aside = aside

    def __call__(self, module: Any, args: Any, output: Any) -> None:
        self._aside.ended(module, args, output)

    def __deepcopy__(self, memo: Any) -> Any:
        return _END

    def __copy__(self) -> Any:
        return _END

    def __reduce__(self) -> Any:
        return getattr, (contextlib.nullcontext(), "__exit__")
