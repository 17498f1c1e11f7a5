"""Blocks that are checkpointed by re-entry: whether anything that they are given takes a gradient.

``torch.utils.checkpoint`` with ``use_reentrant=True`` computes a block outside of the graph, which goes on above it where one
of the tensors that the block was given needs a gradient. The parameters of the block itself are not asked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from .bounded import BoundedLooks
from .patching import Patches
from .recorder import Recorder
from .variables import Variables

NAME = "reentered"
_MOST_LOOKS = 4  # at one block
_MOST_BLOCKS = 256
_MOST_NAMES = 32
_DEEP = 4


class Reentered:
    """Watches what such blocks are given, in detailed iterations."""

    def __init__(self, recorder: Recorder, variables: Variables, graphed: Callable[[], bool]) -> None:
        """Take what tells whether a pass goes on in which gradients are recorded: within the block they never are."""
        self.recorder = recorder
        self.variables = variables
        self._graphed = graphed
        self._looks = BoundedLooks(_MOST_LOOKS, _MOST_BLOCKS)

    def install(self, patches: Patches) -> None:
        """Put the watching function in place."""
        module = sys.modules.get("torch.utils.checkpoint")
        if self.recorder.wants(NAME) and hasattr(module, "check_backward_validity"):
            patches.around(module, "check_backward_validity", self._look)

    def _look(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        recorder, tensor = self.recorder, self.recorder.torch.Tensor
        if not recorder.detail or recorder.backward_depth or not args or not self._graphed():
            return
        function = _function(sys._getframe(1))
        names = [
            known.name
            for module in _modules(function, recorder.torch.nn.Module)
            for parameter in module.parameters()
            if parameter.requires_grad
            and (known := self.variables.of(parameter)) is not None
            and known.kind == "parameter"
        ]
        if names and self._looks.take(names[0]):
            reached = any(isinstance(one, tensor) and one.requires_grad for one in args[0])
            recorder.event(NAME, _block(names), {"parameters": names[:_MOST_NAMES], "reached": reached})


def _block(names: list[str]) -> str:
    """What the module is called that has parameters of these names."""
    parts = [name.split(".")[:-1] for name in names]
    same = [one for one, *others in zip(*parts, strict=False) if all(other == one for other in others)]
    return ".".join(same) or names[0]


def _function(frame: FrameType | None) -> Any:
    """What is computed by the function of torch that checkpoints."""
    for _ in range(_DEEP):
        frame = frame.f_back if frame is not None else None
        if frame is None:
            return None
        if frame.f_code.co_name == "forward" and "run_function" in frame.f_code.co_varnames:
            return frame.f_locals.get("run_function")
    return None


def _modules(function: Any, kind: type) -> Iterator[Any]:
    """The modules that a function is, or is a method of, or has around it."""
    for _ in range(_DEEP):
        if isinstance(function, kind):
            yield function
            return
        owner = getattr(function, "__self__", None)
        if isinstance(owner, kind):
            yield owner
            return
        inner = getattr(function, "func", None)  # functools.partial
        if inner is None:
            break
        function = inner
    for cell in getattr(function, "__closure__", None) or ():
        try:
            held = cell.cell_contents
        except ValueError:
            continue  # empty
        if isinstance(held, kind):
            yield held
