"""Sparse gradients: the rows of a table that a batch has looked up, as indices and values that lie on the GPU themselves.

Shapes come from PyTorch's own rules, which lose the number of rows where they copy, merge or mask: these are here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from preflight.dryrun.virtual.engine.gpu import VirtualGpu


def _is(tensor: Any) -> bool:
    return isinstance(tensor, torch.Tensor) and tensor.layout is torch.sparse_coo


def _made(places: Any, found: Any, like: Any, merged: bool) -> Any:
    return torch.sparse_coo_tensor(
        places, found, tuple(like.shape), dtype=found.dtype, is_coalesced=merged, check_invariants=False
    )


def clone(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    """Copy indices and values.

    Where a gradient is handed to its parameter, a real GPU takes both over. A fake tensor is held by Python as well, which
    makes PyTorch copy it: that copy is none.
    """
    if not _is(args[0]):
        return NotImplemented
    places, found = args[0]._indices(), args[0]._values()
    if gpu.progress.phase != "backward":
        with gpu:
            places, found = places.clone(), found.clone()
    return _made(places, found, args[0], bool(args[0].is_coalesced()))


def coalesce(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    """Merge the rows that occur several times; as many are taken to be different as there can be.

    Source: ``aten/src/ATen/native/sparse/cuda/SparseCUDATensor.cu``: flat indices, their order and the places of the
    different ones are kept until the values have been summed.
    """
    if not _is(args[0]):
        return NotImplemented
    places, found = args[0]._indices(), args[0]._values()
    gpu.synchronise("size depends on numbers", 8)
    count = min(found.shape[0], math.prod(args[0].shape[: args[0].sparse_dim()]))
    with gpu:
        flat = [places.new_empty((found.shape[0],)) for _ in range(3)]
        merged = found.new_empty((count, *found.shape[1:]))
        places = places.new_empty((places.shape[0], count))
        del flat
    return _made(places, merged, args[0], True)


def mask(gpu: VirtualGpu, func: Any, args: Any, kwargs: Any) -> Any:
    """Take the rows of a whole tensor at the indices of a sparse one."""
    source, like = args[0], args[1]
    if source.layout is not torch.strided or not _is(like):
        return NotImplemented
    places, old = like._indices(), like._values()
    with gpu:
        found = source.new_empty(tuple(old.shape))
    return _made(places, found, like, bool(like.is_coalesced()))
