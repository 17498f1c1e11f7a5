"""Bytes that belong to libraries and not to tensors of the script."""

from __future__ import annotations

from preflight.cost.numeric import larger, where
from preflight.vocabulary.hardware import Gpu
from preflight.vocabulary.quantity import MIB, Interval
from preflight.vocabulary.run import ParallelDims

# CUDA context with the kernels of torch and cuBLAS: 0.47 GiB (lazily loaded) and 0.92 GiB (eagerly) on an A100 with
# torch 2.1 (stas00's engineering notes), 1343 MiB on a V100 in 2022 (transformers' guide), 1457 MiB read beside an MLP
# of 40,000 parameters on an A100 (GPUMemNet's data). The versions are not known here.
_CONTEXT = Interval(450 * MIB, 900 * MIB, 1550 * MIB)
# One NCCL communicator: 544 to 688 MB for groups of 2 and 4 A100 (nccl issue 964), 1.45 GiB seen with two GPUs.
COMMUNICATOR = Interval(300 * MIB, 650 * MIB, 1450 * MIB)
COMMUNICATOR_SOURCE = "300 to 1450 MiB (published: nccl issue 964, stas00's engineering notes)"


def cublas_workspace(gpu: Gpu | None, stack: str = "eager") -> float:
    """Return torch's cuBLAS workspace, which its own allocator counts.

    32 MiB on Hopper and later, 8.125 MiB before (CUBLAS_WORKSPACE_CONFIG defaults in torch's CUDA context code);
    Transformer Engine has another one of the same size.
    """
    capability = gpu.compute_capability if gpu else None
    copies = 2 if stack == "megatron" else 1
    if capability is not None and capability >= (9, 0):
        return copies * 32.0 * MIB
    return copies * 8.125 * MIB


def context_bytes(gpu: Gpu | None, parallel: ParallelDims) -> Interval:
    """Return what the driver and the communication library take outside torch's allocator."""
    low, mid, high = _CONTEXT.low, _CONTEXT.mid, _CONTEXT.high
    if gpu is not None and gpu.context_bytes:
        mid = float(gpu.context_bytes)
        low, high = 0.8 * mid, max(1.6 * mid, high)
    groups = communicators(parallel)
    return Interval(low + groups * COMMUNICATOR.low, mid + groups * COMMUNICATOR.mid, high + groups * COMMUNICATOR.high)


def communicators(parallel: ParallelDims) -> float:
    """Return the number of communication groups that a rank is in: one for every axis that is more than one wide."""
    degrees = (parallel.dp_replicate, parallel.dp_shard, parallel.cp, parallel.tp, parallel.pp, parallel.ep)
    total: float = 0
    for degree in degrees:
        total = total + where(degree > 1, 1, 0)
    return larger(total, where(parallel.world_size > 1, 1, 0))
