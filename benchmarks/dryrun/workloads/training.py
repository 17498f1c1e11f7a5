"""The loop that the workloads share: precision, optimizer, accumulation, an average of the weights, evaluation.

What PyTorch chooses by the device is named here (multi-tensor kernels, mostly), so that one program does the same on a
CPU and on a GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Lion(torch.optim.Optimizer):
    """Lion (Chen et al. 2023) as people write it by hand: one moment, the sign of an interpolation as the update."""

    def __init__(self, params: Any, lr: float = 1e-4) -> None:
        super().__init__(params, {"lr": lr, "betas": (0.9, 0.99)})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Do one update."""
        for group in self.param_groups:
            first, second = group["betas"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["moment"] = torch.zeros_like(parameter)
                moment = state["moment"]
                update = moment * first + parameter.grad * (1 - first)
                parameter.add_(update.sign_(), alpha=-group["lr"])
                moment.mul_(second).add_(parameter.grad, alpha=1 - second)


def make_optimizer(kind: str, parameters: Any) -> torch.optim.Optimizer:
    """Return the optimizer of a name: ``sgd``, ``momentum``, ``adam``, ``adamw``, ``fused``, ``adafactor``, ``lion``."""
    parameters = [p for p in parameters if p.requires_grad]
    if kind == "sgd":
        return torch.optim.SGD(parameters, lr=0.01, foreach=True)
    if kind == "momentum":
        return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, weight_decay=1e-4, foreach=True)
    if kind == "adam":
        return torch.optim.Adam(parameters, lr=1e-4, foreach=True)
    if kind == "adamw":
        return torch.optim.AdamW(parameters, lr=1e-4, foreach=True)
    if kind == "adamw-loop":
        return torch.optim.AdamW(parameters, lr=1e-4, foreach=False)
    if kind == "fused":
        return torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    if kind == "adafactor":
        return torch.optim.Adafactor(parameters, lr=1e-3, foreach=False)
    if kind == "lion":
        return Lion(parameters)
    raise ValueError(kind)


def train(
    model: torch.nn.Module,
    batches: Callable[[], tuple[Any, ...]],
    loss_of: Callable[..., torch.Tensor],
    *,
    optimizer: str = "adamw",
    precision: str = "fp32",
    steps: int = 3,
    accumulate: int = 1,
    clip: float = 0.0,
    average: bool = False,
    evaluate: bool = False,
    set_to_none: bool = True,
) -> None:
    """Train for a few steps.

    Args:
        model: The model, on the CPU.
        batches: Makes a batch on the device.
        loss_of: The loss of (model, *batch).
        optimizer: A name that ``make_optimizer`` knows.
        precision: ``fp32``, ``bf16`` and ``fp16`` (weights), ``amp-bf16``, ``amp-fp16`` (with a GradScaler).
        steps: Optimizer steps.
        accumulate: Micro-batches of a step.
        clip: Largest norm of the gradients; 0 for no clipping.
        average: Keep an exponential moving average of the weights.
        evaluate: Run a batch without gradients after each step.
        set_to_none: What ``zero_grad`` is given.
    """
    amp = precision.removeprefix("amp-") if precision.startswith("amp-") else None
    model.to(DEVICE, DTYPES["fp32" if amp else precision])
    averaged = [p.detach().clone() for p in model.parameters()] if average else []
    stepper = make_optimizer(optimizer, model.parameters())
    scaler = torch.amp.GradScaler(DEVICE, init_scale=1024.0, enabled=amp == "fp16")  # no step is left out

    def context() -> Any:
        return torch.autocast(DEVICE, dtype=DTYPES[amp]) if amp else nullcontext()

    model.train()
    for _ in range(steps):
        for _ in range(accumulate):
            batch = batches()
            with context():
                loss = loss_of(model, *batch) / accumulate
            scaler.scale(loss).backward()
        if clip:
            scaler.unscale_(stepper)
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip, foreach=True)
        scaler.step(stepper)
        scaler.update()
        stepper.zero_grad(set_to_none=set_to_none)
        with torch.no_grad():
            for mean, parameter in zip(averaged, model.parameters(), strict=False):
                mean.lerp_(parameter, 0.001)
        if evaluate:
            model.eval()
            with torch.no_grad(), context():
                loss_of(model, *batches())
            model.train()


def named(cases: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the case that the command line names."""
    return dict(cases[sys.argv[1]])


def checkpointed(parts: Any, x: Any, use: bool) -> Any:
    """Run parts one after another, each recomputed in the backward pass when asked for."""
    from torch.utils.checkpoint import checkpoint

    for part in parts:
        x = checkpoint(part, x, use_reentrant=False) if use else part(x)
    return x
