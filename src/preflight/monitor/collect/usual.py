"""The quick way for the lists of tensors that nearly all are: plain, of one kind, on one device.

What other lists need is asked of each tensor elsewhere, and costs more than the digests of small tensors do.
On a CPU a tensor's norm is taken right before its fingerprint, while its elements come from memory once for both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .checksum import checksums
from .pending import Pending, to_host
from .plain import DEVICES, plain_types

Decode = Callable[[list[Any]], list[Any]]


def alike(torch: Any, tensors: Sequence[Any]) -> list[Any] | None:
    """Return the tensors that are there when they are plain, of one usual kind and on one device, else None.

    Args:
        torch: The torch that is loaded.
        tensors: Tensors; None stands for one that is not there.
    """
    there = [tensor for tensor in tensors if tensor is not None]
    if not there:
        return None
    types, strided = plain_types(torch), torch.strided
    if type(there[0]) not in types:
        return None
    kind, device = there[0].dtype, there[0].device
    if kind not in _kinds(torch) or device.type not in DEVICES:
        return None
    for tensor in there:
        if type(tensor) not in types or tensor.dtype is not kind or tensor.layout is not strided:
            return None
        if tensor.device != device or not tensor.numel() or tensor.is_neg():
            return None
    return there


_finer: dict[Any, Any] = {}


def _kinds(torch: Any) -> dict[Any, Any]:
    """Return the kinds that the quick way is for, with what is added up in where that is another one."""
    if not _finer:
        _finer.update({torch.float32: None, torch.bfloat16: torch.float32, torch.float16: torch.float32})
    return _finer


def norms(torch: Any, tensors: Sequence[Any], there: list[Any]) -> Pending:
    """Start the norms of tensors that are alike.

    Args:
        torch: The torch that is loaded.
        tensors: What was asked for, None where there is none.
        there: Those that are there.
    """
    finer = _kinds(torch)[there[0].dtype]
    made = torch._foreach_norm(there, 2) if finer is None else torch._foreach_norm(there, 2, finer)
    spread = _spread(tensors)
    return Pending([to_host(torch, torch.stack(made))], lambda read: spread(_finite(read[0])))


def norms_and_fingerprints(torch: Any, tensors: Sequence[Any], there: list[Any]) -> Pending:
    """Start the norms and the fingerprints of tensors on a CPU that are alike; the values are two lists.

    Args:
        torch: The torch that is loaded.
        tensors: What was asked for, None where there is none.
        there: Those that are there.
    """
    finer = _kinds(torch)[there[0].dtype]
    norm = torch.linalg.vector_norm
    sizes: list[Any] = []
    sums, decode = checksums(torch, there, lambda tensor: sizes.append(norm(tensor, dtype=finer)))
    reads = [to_host(torch, torch.stack(sizes)), to_host(torch, sums)]
    spread = _spread(tensors)
    return Pending(reads, lambda read: [spread(_finite(read[0])), spread(decode(read[1]))])


def _finite(values: list[float]) -> list[float]:
    isfinite, nan = math.isfinite, math.nan
    return [value if isfinite(value) else nan for value in values]


def _spread(tensors: Sequence[Any]) -> Decode:
    """Return what puts values at the places of the tensors that are there; it keeps no tensor."""
    missing = [place for place, tensor in enumerate(tensors) if tensor is None]

    def spread(values: list[Any]) -> list[Any]:
        for place in missing:
            values.insert(place, None)
        return values

    return spread
