"""Whether to read what an operation saved for the backward pass is to run something that the program hooked there."""

from __future__ import annotations

import functools
import sys
from typing import Any

from .patching import Patches

_PUSH = "_push_saved_tensors_default_hooks"


class Hooks:
    """Hooks on what graphs save, as the program sets them for all operations of a block of code.

    A newer PyTorch tells which hooks are in force, and which a saved tensor has. Of an older one only the setting itself
    can be noticed: once hooks were set, nothing that was saved is read any more.

    Attributes:
        ever: Whether any were ever in force since they are watched.
    """

    def __init__(self, torch: Any) -> None:
        """Look for what this PyTorch tells of hooks."""
        self.torch = torch
        self._owner = getattr(torch._C, "_autograd", None)
        self._top = getattr(self._owner, "_top_saved_tensors_default_hooks", None)
        self.ever = False

    def install(self, patches: Patches) -> None:
        """Notice from now on when the program sets hooks, also where it calls no module."""
        push = getattr(self._owner, _PUSH, None)
        if push is None:
            self.ever = True  # a torch that does it in another way: then it is not known
            return

        @functools.wraps(push)
        def noticed(*args: Any) -> Any:
            self.ever = _Process.hooked = True
            return push(*args)

        self.look()
        patches.replace(self._owner, _PUSH, noticed, lasting=True)
        patches.alias(self._owner, _PUSH, self.torch.autograd, lasting=True)
        patches.keep(_Process)

    def look(self) -> None:
        """Notice hooks that are in force now."""
        if self.ever or self._top is None:
            return
        try:
            self.ever = self._top(True) is not None
        except (RuntimeError, TypeError):
            self.ever = True  # a torch that is asked in another way


class _Process:
    """What is known of the process, as long as it is recorded, where a saved tensor does not tell of its own hooks."""

    hooked = False

    @classmethod
    def remove(cls) -> None:
        """Forget it with the recorder."""
        cls.hooked = False


def runs_a_hook(node: Any, word: str) -> bool:
    """Whether to read ``_saved_WORD`` of an operation is to run what the program hooked there: a whole forward pass, perhaps.

    Args:
        node: The operation.
        word: The name of what it saved, as ``self``.
    """
    saved = getattr(node, f"_raw_saved_{word}", None)
    if saved is None:
        return False  # a number, or nothing
    if not saved_tensors_tell():
        return _Process.hooked
    return any(
        getattr(one, "unpack_hook", None) is not None for one in (saved if isinstance(saved, tuple) else (saved,))
    )


@functools.cache
def saved_tensors_tell() -> bool:
    """Whether saved tensors tell of their hooks."""
    return hasattr(sys.modules["torch"]._C._autograd.SavedTensor, "unpack_hook")
