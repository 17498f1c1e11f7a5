"""Tensors of a model that need gradients and are no parameters: nobody hands them to an optimizer."""

from __future__ import annotations

import weakref
from typing import Any

from .bounded import BoundedLooks
from .recorder import Recorder

NAME = "leaf.left"
_LOOKS = 4
_MOST_ROOTS = 64
_MOST_LEAVES = 16


class Leaves:
    """Looks at the attributes of modules, in the first passes of a model that train."""

    def __init__(self, recorder: Recorder, held: Any) -> None:
        self.recorder = recorder
        self.held = held  # whether an optimizer holds a tensor
        self._looks = BoundedLooks(_LOOKS, _MOST_ROOTS, weakref.WeakKeyDictionary())
        self._known: dict[str, tuple[int, int]] = {}  # by name: which tensor, and how often it was written to

    def look(self, root: Any, name: str) -> None:
        """Tell of tensors that have gathered gradients since the last look, and were not changed, stepped or cleared."""
        if not self._looks.take(root):
            return
        recorder = self.recorder
        for prefix, module in root.named_modules(prefix=name):
            for word, value in vars(module).items():
                if isinstance(value, recorder.torch.Tensor) and value.is_leaf and value.requires_grad:
                    self._leaf(f"{prefix}.{word}", value)

    def _leaf(self, name: str, tensor: Any) -> None:
        now = (id(tensor), tensor._version)
        if self._known.get(name) != now:
            if name in self._known or len(self._known) < _MOST_LEAVES:
                self._known[name] = now
            return
        if self.recorder.trainers.safe() and tensor.grad is not None and not self.held(tensor):
            self.recorder.scalar(NAME, name, 1.0)
