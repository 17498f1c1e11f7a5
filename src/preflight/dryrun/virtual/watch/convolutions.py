"""Watches convolutions: their types, sizes and the order of their input in memory."""

from __future__ import annotations

from typing import Any

import torch

from preflight.dryrun.virtual.watch.operators import Operators


def install(operators: Operators) -> None:
    """Note every convolution of a forward pass."""

    def convolved(name: str, args: Any, kwargs: Any, result: Any) -> None:
        source, weight = args[0], args[1]
        if source.dim() != 4:
            return
        operators.seen.note(
            "convolution", dtype=str(source.dtype).removeprefix("torch."), channels=int(source.shape[1]),
            channels_last=bool(source.is_contiguous(memory_format=torch.channels_last)),
            multiplications=int(result.numel() * weight.numel() // max(1, weight.shape[0])),
        )  # fmt: skip

    operators.tell("convolution", convolved)
