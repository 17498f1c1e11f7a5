"""What stands around a kernel and adds arguments to its launch."""

from __future__ import annotations

from typing import Any

from .jit import KernelInterface


class Config:
    """Constants of a kernel and how it is launched.

    Args:
        kwargs: The constants.
    """

    def __init__(
        self, kwargs: dict[str, Any], num_warps: int = 4, num_stages: int = 3, num_ctas: int = 1, **more: Any
    ) -> None:
        self.kwargs, self.num_warps, self.num_stages, self.num_ctas = kwargs, num_warps, num_stages, num_ctas
        self.pre_hook = more.get("pre_hook")

    def all_kwargs(self) -> dict[str, Any]:
        """Return what is added to a launch."""
        return {**self.kwargs, "num_warps": self.num_warps, "num_stages": self.num_stages}


class Autotuner(KernelInterface):
    """A kernel with configurations, of which the virtual GPU takes the first.

    Args:
        fn: The kernel.
        configs: The configurations; none is one without constants.
    """

    def __init__(self, fn: Any, configs: list[Config]) -> None:
        self.fn, self.configs, self.arg_names = fn, configs or [Config({})], fn.arg_names
        self.best_config = self.configs[0]


class Heuristics(KernelInterface):
    """A kernel with arguments that follow from others.

    Args:
        fn: The kernel.
        values: What computes each of them.
    """

    def __init__(self, fn: Any, values: dict[str, Any]) -> None:
        self.fn, self.values, self.arg_names = fn, values, fn.arg_names

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        """Launch with the arguments that follow."""
        for name, of in self.values.items():
            kwargs[name] = of({**dict(zip(self.arg_names, args, strict=False)), **kwargs})
        return self.fn.run(*args, grid=grid, warmup=warmup, **kwargs)
