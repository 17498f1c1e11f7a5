"""The gradients of several smaller batches add up before the optimizer steps."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from preflight.dryrun.virtual.changes import Change, Run


def install(change: Change, run: Run) -> None:
    """Let only every ``times``-th step of an optimizer happen, and gradients be dropped only after it."""
    times = int(change.options["times"])
    waiting: dict[int, int] = {}
    make, drop, drop_of_module = (
        torch.optim.Optimizer.__init__,
        torch.optim.Optimizer.zero_grad,
        torch.nn.Module.zero_grad,
    )

    def made(optimizer: Any, *args: Any, **kwargs: Any) -> None:
        make(optimizer, *args, **kwargs)
        plain = optimizer.step

        def step(self: Any, *args: Any, **kwargs: Any) -> Any:
            waiting[id(self)] = waiting.get(id(self), 0) + 1
            if waiting[id(self)] < times:
                change.did("steps left out")
                closure = args[0] if args else kwargs.get("closure")
                return closure() if callable(closure) else None
            waiting[id(self)] = 0
            return plain(*args, **kwargs)

        # A method, because schedulers look for one.
        optimizer.step = types.MethodType(step, optimizer)

    def dropped(optimizer: Any, *args: Any, **kwargs: Any) -> None:
        if not waiting.get(id(optimizer)):
            drop(optimizer, *args, **kwargs)

    def dropped_of_module(module: Any, *args: Any, **kwargs: Any) -> None:
        if not any(waiting.values()):
            drop_of_module(module, *args, **kwargs)

    torch.optim.Optimizer.__init__ = made
    torch.optim.Optimizer.zero_grad = dropped
    torch.nn.Module.zero_grad = dropped_of_module
