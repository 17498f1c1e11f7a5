"""Bytes that belong to libraries and not to tensors of the script."""

from __future__ import annotations

from preflight.cost.numeric import larger, where
from preflight.vocabulary.hardware import Gpu
from preflight.vocabulary.quantity import MIB, Interval
from preflight.vocabulary.run import ParallelDims, RunSpec

# CUDA context with the kernels of torch and cuBLAS: 0.47 GiB (lazily loaded) and 0.92 GiB (eagerly) on an A100 with
# torch 2.1 (stas00's engineering notes), 1343 MiB on a V100 in 2022 (transformers' guide), 1457 MiB read beside an MLP
# of 40,000 parameters on an A100 (GPUMemNet's data). The versions are not known here.
_CONTEXT = Interval(450 * MIB, 900 * MIB, 1550 * MIB)
# One NCCL communicator: 544 to 688 MB for groups of 2 and 4 A100 (nccl issue 964), 1.45 GiB seen with two GPUs.
COMMUNICATOR = Interval(300 * MIB, 650 * MIB, 1450 * MIB)
COMMUNICATOR_SOURCE = "300 to 1450 MiB (published: nccl issue 964, stas00's engineering notes)"


# A handle of cuBLAS belongs to a thread, and the backward pass runs on a thread of its own.
_THREADS = 2
# Transformer Engine multiplies the matrices of several experts on four streams, each with a workspace.
_GROUPED_STREAMS = 4
_OVERLAP_STREAMS = 3
# What torch's deterministic algorithms ask for: CUBLAS_WORKSPACE_CONFIG=:4096:8, eight buffers of 4096 KiB.
_DETERMINISTIC = 8 * 4096 * 1024.0


# From this version on torch gives Blackwell what it has long given Hopper (pytorch/pytorch pull request 175344).
_BLACKWELL_SINCE = (2, 12)


def cublas_workspace(gpu: Gpu | None, torch: str | None = None) -> float:
    """Return one workspace of cuBLAS, which torch's own allocator counts.

    32 MiB on Hopper, 8.125 MiB before (CUBLAS_WORKSPACE_CONFIG defaults in torch's CUDA context code); Blackwell has had
    32 MiB since torch 2.12 only.

    Args:
        gpu: The device.
        torch: Version of PyTorch; the newest when None.
    """
    capability = gpu.compute_capability if gpu else None
    blackwell = capability is not None and capability >= (10, 0)
    early = torch is not None and version_of(torch) < _BLACKWELL_SINCE
    return 32.0 * MIB if _hopper(gpu) and not (blackwell and early) else 8.125 * MIB


def version_of(text: str) -> tuple[int, int]:
    """Return major and minor version of a text that starts with them: ``2.11.0a0`` is (2, 11).

    Raises:
        ValueError: It does not.
    """
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def workspaces(gpu: Gpu | None, run: RunSpec, experts: int = 0) -> float:
    """Return every workspace that stays allocated: of the forward and the backward thread, and of other libraries.

    Transformer Engine has one of its own, 32 MiB on Hopper and later and 4 MiB before, and four more for the products
    of grouped experts (``get_cublas_workspace_size_bytes`` in its PyTorch extension).
    """
    total = _THREADS * (_DETERMINISTIC if run.deterministic else cublas_workspace(gpu, run.torch))
    if run.stack == "megatron":
        own = 32.0 * MIB if _hopper(gpu) else 4.0 * MIB
        # With user buffers, which hide tensor-parallel communication, each of three streams has one, beside the first.
        overlapped = _OVERLAP_STREAMS if run.tensor_overlap else 0
        total += own * (1 + overlapped + (_GROUPED_STREAMS if experts and run.expert_grouping else 0))
    return total


def _hopper(gpu: Gpu | None) -> bool:
    capability = gpu.compute_capability if gpu else None
    return capability is not None and capability >= (9, 0)


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
