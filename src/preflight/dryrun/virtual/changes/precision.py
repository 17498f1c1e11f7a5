"""Autocast to bf16 around the forward and the loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from preflight.dryrun.virtual.changes import Change, Run


def install(change: Change, run: Run) -> None:
    """Enter autocast before a model that learns is called, and leave it where the backward pass begins."""
    regions: list[Any] = []
    go_back = torch.autograd._engine_run_backward

    def enter(module: Any, args: Any, kwargs: Any) -> None:
        if regions:
            return
        if torch.is_autocast_enabled("cuda"):
            change.cannot("the forward runs under autocast already")
            return
        region = torch.autocast("cuda", dtype=torch.bfloat16)
        region.__enter__()
        regions.append(region)
        change.did(f"autocast around {type(module).__name__}")

    def backward(*args: Any, **kwargs: Any) -> Any:
        while regions:
            regions.pop().__exit__(None, None, None)
        return go_back(*args, **kwargs)

    run.inputs.before.append(enter)
    torch.autograd._engine_run_backward = backward
    torch.autograd.graph._engine_run_backward = backward
