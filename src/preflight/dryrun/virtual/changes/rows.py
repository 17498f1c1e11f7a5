"""More or fewer rows in what comes to the GPU, for a script whose batches no loader makes.

Batches are tensors whose first dimension is the batch: those that the script copies to the GPU, and those that it makes
there, as long as no module is being built, moved or run.
"""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from preflight.dryrun.virtual import private
from preflight.dryrun.virtual.engine.gpu import Fake

if TYPE_CHECKING:
    from preflight.dryrun.virtual.changes import Change, Run

_MODULES = os.path.join("torch", "nn", "modules", "")


def install(change: Change, run: Run) -> None:
    """Give tensors of ``before`` rows ``value`` rows as they come to the GPU."""
    before, value = int(change.options["before"]), int(change.options["value"])
    progress, execute = run.gpu.progress, run.gpu._run

    def elsewhere() -> bool:
        """Whether this is no place where batches are made."""
        if progress.modules or progress.phase in ("optimizer", "backward"):
            return True
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            if _MODULES in code.co_filename or (code.co_name == "__init__" and _is_module(frame)):
                return True
            frame = frame.f_back
        return False

    def batch(source: Any, device: Any) -> bool:
        return (
            device.type == private.BACKEND
            and isinstance(source, torch.Tensor)
            and not isinstance(source, Fake)
            and source.dim() > 0
            and source.size(0) == before
            and not source.requires_grad
        )

    def changed(func: Any, args: Any, kwargs: Any, *more: Any) -> Any:
        device = kwargs.get("device")
        if device is None or not args:
            return execute(func, args, kwargs, *more)
        if func is torch.ops.aten._to_copy.default:
            if batch(args[0], device) and not elsewhere():
                change.did(f"batches copied at {progress.line()}")
                args = (_with_rows(args[0], value), *args[1:])
            return execute(func, args, kwargs, *more)
        at = next((at for at, argument in enumerate(func._schema.arguments) if argument.name == "size"), None)
        made = at is not None and at < len(args) and not any(isinstance(leaf, torch.Tensor) for leaf in args)
        if at is not None and made and args[at] and args[at][0] == before and not elsewhere():
            change.did(f"batches made at {progress.line()}")
            args = (*args[:at], [value, *args[at][1:]], *args[at + 1 :])
        return execute(func, args, kwargs, *more)

    run.gpu._run = changed  # type: ignore[assignment,method-assign,unused-ignore]


def _is_module(frame: Any) -> bool:
    return isinstance(frame.f_locals.get("self"), torch.nn.Module)


def _with_rows(source: torch.Tensor, rows: int) -> torch.Tensor:
    if rows <= source.size(0):
        return source[:rows]
    times = -(-rows // source.size(0))
    return torch.cat([source] * times)[:rows]
