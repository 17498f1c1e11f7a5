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

_SHORT = 4096
"""Elements of a vector whose norm takes less time than it takes to ask for it."""
_FEW = 4

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
    # Whether a tensor lies in memory of the processor is told at once; to name a device makes an object each time.
    cpu = there[0].is_cpu
    for tensor in there:
        if type(tensor) not in types or tensor.dtype is not kind or tensor.layout is not strided:
            return None
        if not (tensor.is_cpu if cpu else tensor.device == device) or not tensor.numel() or tensor.is_neg():
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
    spread = _spread(tensors)
    if there[0].is_cpu:
        made, places = _by_length(torch, there, finer)
        return Pending([to_host(torch, made)], lambda read: spread(_finite([read[0][place] for place in places])))
    made = torch._foreach_norm(there, 2) if finer is None else torch._foreach_norm(there, 2, finer)
    return Pending([to_host(torch, torch.stack(made))], lambda read: spread(_finite(read[0])))


def _by_length(torch: Any, there: list[Any], finer: Any) -> tuple[Any, list[int]]:
    """Take norms on a CPU: short vectors of one length as rows of a matrix.

    A row's norm is that of the vector alone, to the last bit, as long as both lie in one piece.

    Returns:
        The norms as one vector, and where in it each tensor's stands.
    """
    rows: dict[int, list[int]] = {}
    alone: list[int] = []
    for place, tensor in enumerate(there):
        count = tensor.numel()
        if count <= _SHORT and tensor.dim() == 1 and tensor.is_contiguous():
            rows.setdefault(count, []).append(place)
        else:
            alone.append(place)
    norm = torch.linalg.vector_norm
    order: list[int] = []
    parts: list[Any] = []
    for many in rows.values():
        if len(many) < _FEW:
            alone += many
            continue
        order += many
        parts.append(norm(torch.stack([there[place] for place in many]), dim=1, dtype=finer))
    if alone:
        order += alone
        own = [there[place] for place in alone]
        parts.append(torch.stack(torch._foreach_norm(own, 2) if finer is None else torch._foreach_norm(own, 2, finer)))
    places = [0] * len(order)
    for at, place in enumerate(order):
        places[place] = at
    return parts[0] if len(parts) == 1 else torch.cat(parts), places


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
