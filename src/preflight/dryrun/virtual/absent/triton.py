"""Triton where it is installed: its kernels are compiled by a driver that is not there, so launches are met before it."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from preflight.dryrun.virtual.absent import after
from preflight.dryrun.virtual.engine import kernels


def install() -> None:
    """Meet launches once Triton is imported."""
    after.imported("triton.runtime.jit", _jit)
    after.imported("triton.runtime.autotuner", _autotuner)
    after.imported("triton.runtime.driver", _driver)


def _jit(module: ModuleType) -> None:
    if not hasattr(module, "JITFunction"):
        return

    def run(kernel: Any, *args: Any, grid: Any = None, warmup: bool = False, **kwargs: Any) -> None:
        given = dict(zip(kernel.arg_names, args, strict=False))
        given |= {name: value for name, value in kwargs.items() if name in kernel.arg_names}
        if callable(grid):
            grid(given)
        if not warmup:
            kernels.launch(kernel.fn, given)

    module.JITFunction.run = run


def _autotuner(module: ModuleType) -> None:
    if not hasattr(module, "Autotuner"):
        return

    def run(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        """Launch with the first configuration: nothing is there that could be measured."""
        tuner.best_config = tuner.configs[0]
        return tuner.fn.run(*args, **{**tuner.best_config.all_kwargs(), **kwargs})

    module.Autotuner.run = run


def _driver(module: ModuleType) -> None:
    """Let the driver tell of the virtual GPU."""
    if not hasattr(getattr(module, "driver", None), "set_active"):
        return

    def properties(device: int = 0) -> dict[str, int]:
        told = torch.cuda.get_device_properties(device)
        return {
            "multiprocessor_count": told.multi_processor_count,
            "max_shared_mem": getattr(told, "shared_memory_per_block_optin", 0),
            "max_num_regs": getattr(told, "regs_per_multiprocessor", 0),
            "warpSize": 32,
        }

    def target() -> Any:
        from triton.backends.compiler import GPUTarget  # type: ignore[import-not-found, unused-ignore]

        major, minor = torch.cuda.get_device_capability()
        return GPUTarget("cuda", 10 * major + minor, 32)

    module.driver.set_active(
        SimpleNamespace(
            get_current_target=target,
            get_current_device=torch.cuda.current_device,
            get_active_torch_device=lambda: torch.device("cuda", torch.cuda.current_device()),
            get_device_interface=lambda: torch.cuda,
            utils=SimpleNamespace(get_device_properties=properties),
        )
    )
