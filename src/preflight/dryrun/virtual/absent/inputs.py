"""What the person's model is given: the shapes of the first batch that it learns from, and who else wants to see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from preflight.dryrun.virtual import private
from preflight.dryrun.virtual.engine.gpu import Fake, VirtualGpu

MOST = 8
"""So many models, and tensors of one, are told of."""


class Inputs:
    """The calls of top modules that record a graph.

    Attributes:
        first: The first such call of every module: its class, the person's line, the shapes of its tensors.
        before: Called with module, arguments and keyword arguments before each of them.
    """

    def __init__(self) -> None:
        self.first: list[dict[str, Any]] = []
        self.before: list[Callable[[Any, Any, Any], None]] = []
        self._seen: set[int] = set()

    def see(self, module: Any, args: Any, kwargs: Any, line: str) -> None:
        """Note a call."""
        if id(module) in self._seen or len(self.first) >= MOST:
            return
        shapes = [list(leaf.shape) for leaf in private.leaves(args, kwargs) if isinstance(leaf, Fake)][:MOST]
        if shapes:
            self._seen.add(id(module))
            self.first.append({"module": type(module).__name__, "line": line, "shapes": shapes})


def install(gpu: VirtualGpu) -> Inputs:
    """Watch every call of a module from outside any other."""
    inputs, progress, call = Inputs(), gpu.progress, torch.nn.Module.__call__

    def called(module: Any, *args: Any, **kwargs: Any) -> Any:
        if not progress.modules and progress.phase != "backward" and torch.is_grad_enabled():
            for watcher in inputs.before:
                watcher(module, args, kwargs)
            inputs.see(module, args, kwargs, progress.line())
        return call(module, *args, **kwargs)

    torch.nn.Module.__call__ = called
    return inputs
