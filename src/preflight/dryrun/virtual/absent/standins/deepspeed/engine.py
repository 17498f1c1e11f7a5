"""The engine that holds a model, its master weights and the optimizer."""

from __future__ import annotations

import json
import os
from typing import Any

import torch
from torch import nn


def _settings(given: Any) -> dict[str, Any]:
    if isinstance(given, (str, os.PathLike)):
        with open(given, encoding="utf-8") as file:
            given = json.load(file)
    return dict(given or {})


class DeepSpeedEngine(nn.Module):
    """A model with what trains it."""

    def __init__(self, model: Any, optimizer: Any, parameters: Any, settings: Any, scheduler: Any) -> None:
        super().__init__()
        from preflight.dryrun.virtual.absent.missing import assume

        self.settings = _settings(settings)
        zero = self.settings.get("zero_optimization") or {}
        self.stage = int(zero.get("stage", 0))
        self.dtype = next(
            (t for n, t in (("bf16", torch.bfloat16), ("fp16", torch.float16)) if self._on(n)), torch.float32
        )
        assume(f"DeepSpeed's buckets and what ZeRO stage {self.stage} shares of gradients and weights are not counted")
        self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        self.local_rank = int(os.environ.get("LOCAL_RANK", 0))
        self.module = model.to(self.device, self.dtype)
        self.micro_steps = self.global_steps = 0
        groups = (
            optimizer.param_groups if optimizer is not None else [{"params": list(parameters or model.parameters())}]
        )
        place = "cpu" if (zero.get("offload_optimizer") or {}).get("device") == "cpu" else self.device
        self._masters = [self._master(group["params"], place) for group in groups]
        self.optimizer = self._optimizer(optimizer, groups)
        self.lr_scheduler = scheduler(self.optimizer) if callable(scheduler) else scheduler

    def _on(self, name: str) -> bool:
        return bool((self.settings.get(name) or {}).get("enabled"))

    def _share(self, count: int) -> int:
        ranks = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
        return -(-count // ranks) if self.stage else count

    def _master(self, params: Any, place: Any) -> tuple[list[Any], Any]:
        kept = [param for param in params if param.requires_grad]
        flat = nn.Parameter(torch.zeros(self._share(sum(p.numel() for p in kept)), device=place))
        return kept, flat

    def _optimizer(self, given: Any, groups: Any) -> Any:
        """Return the optimizer of the script over the master weights, or the one that the settings name."""
        if given is not None:
            for group, (_, flat) in zip(groups, self._masters, strict=True):
                group["params"] = [flat]
            given.state.clear()
            return given
        told = self.settings.get("optimizer") or {}
        more = {
            k: v
            for k, v in (told.get("params") or {}).items()
            if k in ("lr", "betas", "eps", "weight_decay") and v != "auto"
        }
        kind = torch.optim.Adam if str(told.get("type", "")).lower() == "adam" else torch.optim.AdamW
        return kind([flat for _, flat in self._masters], **more)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model."""
        return self.module(*args, **kwargs)

    def backward(self, loss: Any, *_: Any, **__: Any) -> Any:
        """Add to the gradients."""
        (loss / self.gradient_accumulation_steps()).backward()
        return loss

    def step(self, *_: Any, **__: Any) -> None:
        """Change the weights at the end of an accumulation."""
        self.micro_steps += 1
        if self.micro_steps % self.gradient_accumulation_steps():
            return
        for params, flat in self._masters:
            whole = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in params])
            flat.grad = whole[: flat.numel()].to(flat.device, torch.float32)
            del whole
            for param in params:
                param.grad = None
        self.optimizer.step()
        for _params, flat in self._masters:
            flat.grad = None
        self.global_steps += 1
        if self.lr_scheduler is not None:
            self.lr_scheduler.step()

    def zero_grad(self, *_: Any, **__: Any) -> None:
        """The engine clears gradients itself."""

    def is_gradient_accumulation_boundary(self) -> bool:
        """Whether the next step changes the weights."""
        return (self.micro_steps + 1) % self.gradient_accumulation_steps() == 0

    def _number(self, name: str, default: int = 1) -> int:
        value = self.settings.get(name, default)
        return value if isinstance(value, int) else default

    def gradient_accumulation_steps(self) -> int:
        """Return the batches of a step."""
        return self._number("gradient_accumulation_steps")

    def train_micro_batch_size_per_gpu(self) -> int:
        """Return the size of a batch."""
        return self._number("train_micro_batch_size_per_gpu", self._number("train_batch_size"))

    def train_batch_size(self) -> int:
        """Return the records of a step."""
        return self._number(
            "train_batch_size", self.train_micro_batch_size_per_gpu() * self.gradient_accumulation_steps()
        )

    def get_global_grad_norm(self) -> float:
        """Return a norm, which is not known."""
        return 1.0

    def zero_optimization_stage(self) -> int:
        """Return the stage of ZeRO."""
        return self.stage

    def save_checkpoint(self, save_dir: Any, *_: Any, **__: Any) -> None:
        """Save the weights."""
        os.makedirs(save_dir, exist_ok=True)
        torch.save(self.module.state_dict(), os.path.join(save_dir, "mp_rank_00_model_states.pt"))

    def load_checkpoint(self, *_: Any, **__: Any) -> tuple[None, dict[str, Any]]:
        """Load nothing."""
        return None, {}
