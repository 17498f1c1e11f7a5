"""Tensors of a model that need gradients and are no parameters: nobody hands them to an optimizer."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from .bounded import BoundedLooks
from .recorder import Recorder

NAME = "leaf.left"
_LOOKS = 4
_MOST_ROOTS = 64
_MOST_LEAVES = 16
_MOST_HELD = 64
"""Attributes of an object, or members of a list, up to which it is looked into."""


_OF_MODULES = frozenset({"_parameters", "_buffers", "_modules", "training"})
_FOREIGN = frozenset({
    "builtins", "types", "functools", "weakref", "numpy", "torch", "torchvision", "lightning", "lightning_fabric",
    "pytorch_lightning", "transformers", "accelerate", "peft", "timm", "deepspeed",
})  # fmt: skip


class Leaves:
    """Looks at the attributes of modules, in the first passes of a model that train, one after each step.

    Passes without a step between them say nothing of who steps a tensor: gradients are accumulated, or gathered over the
    data before there is an optimizer.
    """

    def __init__(self, recorder: Recorder, held: Any, comes: Callable[[], bool | None]) -> None:
        """Take the recorder, and who knows of optimizers.

        Args:
            recorder: The recorder.
            held: Whether an optimizer holds a tensor.
            comes: Whether one may still be made, by the program's text.
        """
        self.recorder = recorder
        self.held = held
        self._comes = comes
        self._awaited: bool | None = None  # whether an optimizer may still come, once it was asked
        self._steps: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()  # at the last look
        self._looks = BoundedLooks(_LOOKS, _MOST_ROOTS, weakref.WeakKeyDictionary())
        # By name: which tensor, how often it was written to, and its numbers where nobody seems to have changed it.
        self._known: dict[str, tuple[int, int, tuple[float, float] | None]] = {}

    def look(self, root: Any, name: str) -> None:
        """Tell of tensors that have gathered gradients since the last look, and were not changed, stepped or cleared."""
        step = self.recorder.step
        if self._steps.get(root) == step or not self._looks.take(root):
            return
        self._steps[root] = step
        known = {id(one) for one in root.parameters()}
        for prefix, module in root.named_modules(prefix=name):
            for word, value in vars(module).items():
                if self._gathers(value):
                    self._leaf(f"{prefix}.{word}", value)
                elif word not in _OF_MODULES and _is_own(module):
                    for inner, one in _members(value):
                        if self._gathers(one) and id(one) not in known and self._is_parameter(one):
                            self._leaf(f"{prefix}.{word}.{inner}", one)

    def _is_parameter(self, value: Any) -> bool:
        return isinstance(value, self.recorder.torch.nn.Parameter)

    def _gathers(self, value: Any) -> bool:
        return isinstance(value, self.recorder.torch.Tensor) and value.is_leaf and value.requires_grad

    def _leaf(self, name: str, tensor: Any) -> None:
        now = (id(tensor), tensor._version)
        known = self._known.get(name)
        if known is None or known[:2] != now:
            if known is not None or len(self._known) < _MOST_LEAVES:
                self._known[name] = (*now, None)
            return
        if not self.recorder.trainers.safe() or tensor.grad is None or self.held(tensor):
            return
        if not tensor.is_floating_point() or hasattr(tensor, "to_local"):
            return  # a sum over a tensor that is spread over ranks is work of all of them
        torch, held = self.recorder.torch, tensor.detach()
        norm = torch.linalg.vector_norm(held, dtype=torch.float64)
        numbers = (float(held.sum(dtype=torch.float64)), float(norm))  # a write through .data is no version of its own
        if known[2] == numbers and not self._may_come():
            self.recorder.scalar(NAME, name, 1.0)
        self._known[name] = (*now, numbers)

    def _may_come(self) -> bool:
        """Whether the program's text makes another optimizer later, which may be that of the tensor."""
        if self._awaited is None:
            self._awaited = self._comes() is True
        return self._awaited


def _members(value: Any) -> list[tuple[Any, Any]]:
    """What a list, a table or an object that is no module holds, each with its name; nothing of long or foreign ones."""
    found: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        found = list(value.items())
    elif isinstance(value, (list, tuple)):
        found = list(enumerate(value))
    elif _is_own(value) and not isinstance(value, type):
        found = list(getattr(value, "__dict__", {}).items())
    return found if len(found) <= _MOST_HELD else []


def _is_own(value: Any) -> bool:
    """Whether a thing is of a class of the program's own, and of no library that keeps lists of parameters beside models."""
    return type(value).__module__.partition(".")[0] not in _FOREIGN
