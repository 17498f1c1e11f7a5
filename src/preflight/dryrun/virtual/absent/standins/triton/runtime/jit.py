"""Kernels that can be launched."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


class KernelInterface:
    """What is launched by ``kernel[grid](...)``."""

    fn: Any

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        """Launch."""
        return self.fn.run(*args, grid=grid, warmup=warmup, **kwargs)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)


class JITFunction(KernelInterface):
    """A kernel.

    Args:
        fn: Its function; ``run`` is what the virtual GPU makes of a launch.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.arg_names = [*inspect.signature(fn).parameters]
        self.__name__, self.__doc__, self.__module__ = fn.__name__, fn.__doc__, fn.__module__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse, as Triton does.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError("Cannot call @triton.jit'd outside of the scope of a kernel")
