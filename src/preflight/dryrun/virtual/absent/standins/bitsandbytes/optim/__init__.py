"""Optimizers with states of 8 bits, and paged ones, whose states lie in unified memory.

A state of 8 bits has one byte for every element and a scale in fp32 for every 256 of them; parameters with fewer than
4096 elements keep states in fp32. Two tables of 256 numbers are shared by all (bitsandbytes 0.45, ``optimizer.py``).
Unified memory is not taken from PyTorch's allocator: paged states of 100 000 elements or more are not counted.
"""

from __future__ import annotations

from typing import Any

import torch

BLOCK, LEAST, LEAST_PAGED = 256, 4096, 100_000


class _Optimizer(torch.optim.Optimizer):
    """Takes the arguments of any of the classes.

    Attributes:
        states: Number of states of a parameter.
        bits: Bits of an element of a state, unless the argument ``optim_bits`` says so.
        paged: Whether states lie in unified memory, unless ``is_paged`` says so.
    """

    states, bits, paged = 2, 8, False

    def __init__(self, params: Any, lr: float = 1e-3, *args: Any, **kwargs: Any) -> None:
        defaults = {"lr": lr, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}
        defaults |= {name: kwargs[name] for name in defaults if name in kwargs}
        self.choose(kwargs)
        super().__init__(params, defaults)

    def choose(self, kwargs: dict[str, Any]) -> None:
        """Take what the arguments say of the states."""
        if self.bits == 32 and kwargs.get("optim_bits") in (8, 32):
            self.bits = kwargs["optim_bits"]
        self.paged = bool(kwargs.get("is_paged", self.paged))
        self.least = int(kwargs.get("min_8bit_size", LEAST))

    def _begin(self, parameter: Any) -> None:
        state, elements = self.state[parameter], parameter.numel()
        state["step"] = 0
        if self.paged and elements >= LEAST_PAGED:
            return
        small = self.bits == 8 and elements >= self.least
        if small and not hasattr(self, "tables"):
            self.tables = [torch.empty(256, dtype=torch.float32, device=parameter.device) for _ in range(2)]
        for number in range(1, self.states + 1):
            state[f"state{number}"] = torch.zeros_like(parameter, dtype=torch.uint8 if small else torch.float32)
            if small:
                local = getattr(parameter, "_local_tensor", parameter)
                blocks = -(-local.numel() // BLOCK)
                state[f"absmax{number}"] = torch.zeros(blocks, dtype=torch.float32, device=local.device)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Any = None) -> Any:
        """Update every parameter in place; one kernel reads the gradient and the states."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                if not self.state[parameter]:
                    self._begin(parameter)
                self.state[parameter]["step"] += 1
                parameter.add_(parameter.grad, alpha=-group["lr"])
        return loss


class Adam(_Optimizer):
    """Adam in 32 bits, or 8 with ``optim_bits``."""

    bits = 32


class AdamW(Adam):
    """Adam with decoupled decay."""


class Adam8bit(_Optimizer):
    """Adam with states of 8 bits."""


class AdamW8bit(Adam8bit):
    """AdamW with states of 8 bits."""


class PagedAdam(Adam):
    """Adam with states in unified memory."""

    paged = True


class PagedAdamW(PagedAdam):
    """AdamW with states in unified memory."""


class PagedAdam32bit(PagedAdam):
    """The same, by its longer name."""


class PagedAdamW32bit(PagedAdamW):
    """The same, by its longer name."""


class PagedAdam8bit(Adam8bit):
    """Adam with states of 8 bits in unified memory."""

    paged = True


class PagedAdamW8bit(PagedAdam8bit):
    """AdamW with states of 8 bits in unified memory."""


class SGD8bit(_Optimizer):
    """SGD with a momentum of 8 bits."""

    states = 1


class RMSprop8bit(SGD8bit):
    """RMSprop with a state of 8 bits."""


class Lion(SGD8bit):
    """Lion: one state."""

    bits = 32


class Lion8bit(SGD8bit):
    """Lion with a state of 8 bits."""


class PagedLion(Lion):
    """Lion with its state in unified memory."""

    paged = True


class PagedLion8bit(Lion8bit):
    """Lion with a state of 8 bits in unified memory."""

    paged = True


class GlobalOptimManager:
    """Says which parameters keep 32 bits; here it only takes what it is told."""

    _instance: GlobalOptimManager | None = None

    @classmethod
    def get_instance(cls) -> GlobalOptimManager:
        """Return the one instance."""
        if cls._instance is None:
            cls._instance = cls()
        return cls._instance

    def register_module_override(self, *args: Any, **kwargs: Any) -> None:
        """Take an override."""

    def register_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Take parameters."""
