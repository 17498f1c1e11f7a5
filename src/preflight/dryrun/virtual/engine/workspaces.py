"""Memory that libraries take for themselves through PyTorch's allocator, and keep: cuBLAS's workspaces."""

from __future__ import annotations

import os
import re
from typing import Any

import torch

from preflight.dryrun.virtual import private, private_names
from preflight.dryrun.virtual.engine.operators import SPECIAL

CATEGORY = "workspace"
PRODUCTS = frozenset("mm bmm addmm baddbmm addbmm addmv mv dot vdot linear _addmm_activation _scaled_mm".split())
"""Operators that take a handle of cuBLAS."""
HOPPER, OTHERS = 32 << 20, 2 * (4096 << 10) + 8 * (16 << 10)
BLACKWELL_SINCE = (2, 12)
"""From this release on PyTorch gives Blackwell what it gives Hopper (pytorch/pytorch pull request 175344)."""


def install(capability: tuple[int, int]) -> None:
    """Let products of matrices take the workspaces of a GPU of this compute capability."""
    workspaces = Workspaces(capability)

    def taking(before: Any) -> Any:
        def take(gpu: Any, func: Any, args: Any, kwargs: Any) -> Any:
            workspaces.take(gpu)
            return NotImplemented if before is None else before(gpu, func, args, kwargs)

        return take

    for name in PRODUCTS:
        SPECIAL[name] = taking(SPECIAL.get(name))


class Workspaces:
    """The workspaces of one GPU: one for each thread that multiplies matrices, from its first product to the end.

    A handle of cuBLAS belongs to a thread and its workspace to handle and stream, and the backward pass runs on a thread
    of its own. cuBLASLt shares the workspace (from 2.7 on; before, it took 1 MiB for the time of a call).
    Source: ``aten/src/ATen/cuda/CublasHandlePool.cpp``.

    Args:
        capability: Compute capability of the GPU.
    """

    def __init__(self, capability: tuple[int, int]) -> None:
        release = private_names.release(torch.__version__)
        self.size = workspace_bytes(capability, os.environ.get("CUBLAS_WORKSPACE_CONFIG"), release)
        self.kept: dict[bool, Any] = {}

    def take(self, gpu: Any) -> None:
        """A product of matrices runs: let its thread have a workspace."""
        backward = private.running_node_number() is not None
        if backward in self.kept or not self.size:
            return
        with gpu.fake:
            held = self.kept[backward] = torch.empty((self.size,), dtype=torch.uint8, device=gpu.device)
        storage = held.untyped_storage()
        gpu.ledger.see(storage, storage.nbytes(), "cuBLAS")
        gpu.ledger.classify(storage, CATEGORY, "cuBLAS")


def workspace_bytes(capability: tuple[int, int], asked: str | None, release: tuple[int, int]) -> int:
    """Return the bytes of a workspace.

    Args:
        capability: Compute capability: 32 MiB on Hopper and Blackwell; before, two buffers of 4 MiB and eight of 16 KiB.
        asked: The variable ``CUBLAS_WORKSPACE_CONFIG``: pairs ``:KiB:count``.
        release: Major and minor version of PyTorch.
    """
    pairs = re.findall(r":([0-9]+):([0-9]+)", asked or "")
    if pairs:
        return sum(int(size) * int(count) << 10 for size, count in pairs)
    return HOPPER if capability[0] == 9 or (capability[0] > 9 and release >= BLACKWELL_SINCE) else OTHERS
