"""The quick way for the lists of tensors that nearly all are: plain, of one kind, on one device.

What other lists need is asked of each tensor elsewhere, and costs more than the digests of small tensors do.
On a CPU the norm of a tensor that is not short is taken right before its fingerprint, while its elements come from
memory once for both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from .checksum import checksums
from .pending import Pending, to_host
from .plain import DEVICES, plain_types

_SHORT = 4096
"""Elements of a tensor whose norm takes less time than it takes to ask for it."""

Decode = Callable[[list[Any]], list[Any]]
# Asked of every tensor of a model, by functions that loop without the interpreter.
_kind, _lie, _on_cpu = attrgetter("dtype"), attrgetter("layout"), attrgetter("is_cpu")


class Alike(NamedTuple):
    """Tensors that are plain, of one usual kind and on one device."""

    there: list[Any]
    """Those that are there of those that were asked for."""
    counts: tuple[int, ...]
    """How many elements each of them has; nothing where only norms are taken on a CPU, where that does not matter."""


def alike(torch: Any, tensors: Sequence[Any], bits: bool = False) -> Alike | None:
    """Return the tensors that are there when they are plain, of one usual kind and on one device, else None.

    Args:
        torch: The torch that is loaded.
        tensors: Tensors; None stands for one that is not there.
        bits: Whether their bits are read and not only their numbers: of some views those in memory are others.
    """
    there = [tensor for tensor in tensors if tensor is not None]
    if not there or not plain_types(torch).issuperset(map(type, there)):
        return None
    kind, device = there[0].dtype, there[0].device
    if kind not in _kinds(torch) or device.type not in DEVICES:
        return None
    if [*map(_kind, there)].count(kind) < len(there) or [*map(_lie, there)].count(torch.strided) < len(there):
        return None
    # Whether a tensor lies in memory of the processor is told at once; to name a device makes an object each time.
    same = all(map(_on_cpu, there)) if there[0].is_cpu else all(tensor.device == device for tensor in there)
    if not same:
        return None
    # Not every version of the kernel on a GPU knows that nothing has a norm; on a CPU it need not be asked.
    counts = (*map(torch.Tensor.numel, there),) if bits or not there[0].is_cpu else ()
    return None if 0 in counts or (bits and any(map(torch.Tensor.is_neg, there))) else Alike(there, counts)


_finer: dict[Any, Any] = {}


def _kinds(torch: Any) -> dict[Any, Any]:
    """Return the kinds that the quick way is for, with what is added up in where that is another one."""
    if not _finer:
        _finer.update({torch.float32: None, torch.bfloat16: torch.float32, torch.float16: torch.float32})
    return _finer


def norms(torch: Any, tensors: Sequence[Any], found: Alike) -> Pending:
    """Start the norms of tensors that are alike; on a CPU they are read at once.

    Args:
        torch: The torch that is loaded.
        tensors: What was asked for, None where there is none.
        found: Those that are there.
    """
    there = found.there
    finer = _kinds(torch)[there[0].dtype]
    spread = _spread(tensors)
    if there[0].is_cpu:
        return Pending.known(spread(_finite(_sizes(torch, there, finer))))
    made = torch._foreach_norm(there, 2) if finer is None else torch._foreach_norm(there, 2, finer)
    return Pending([to_host(torch, torch.stack(made))], lambda read: spread(_finite(read[0])))


def _sizes(torch: Any, tensors: list[Any], finer: Any) -> list[float]:
    """Take norms on a CPU, in one call: rows made of short vectors cost more once the caches hold something else."""
    made = torch._foreach_norm(tensors, 2) if finer is None else torch._foreach_norm(tensors, 2, finer)
    return [*map(torch.Tensor.item, made)]


def fingerprints(torch: Any, tensors: Sequence[Any], found: Alike) -> Pending:
    """Start the fingerprints of tensors that are alike.

    Args:
        torch: The torch that is loaded.
        tensors: What was asked for, None where there is none.
        found: Those that are there.
    """
    spread = _spread(tensors)
    sums, decode = checksums(torch, found.there)
    return Pending([to_host(torch, sums)], lambda read: spread(decode(read[0])))


def norms_and_fingerprints(torch: Any, tensors: Sequence[Any], found: Alike) -> Pending:
    """Start the norms and the fingerprints of tensors on a CPU that are alike; the values are two lists.

    Args:
        torch: The torch that is loaded.
        tensors: What was asked for, None where there is none.
        found: Those that are there.
    """
    there = found.there
    finer = _kinds(torch)[there[0].dtype]
    norm = torch.linalg.vector_norm
    short = [place for place, count in enumerate(found.counts) if count <= _SHORT]
    long = [place for place, count in enumerate(found.counts) if count > _SHORT]
    sizes = _sizes(torch, [there[place] for place in short], finer) if short else []
    alone: list[Any] = []
    sums, decode = checksums(torch, there, lambda tensor: alone.append(norm(tensor, dtype=finer)), long)
    known = dict(zip(short + long, sizes + [one.item() for one in alone], strict=True))
    values = _finite([known[place] for place in range(len(there))])
    spread = _spread(tensors)
    return Pending([to_host(torch, sums)], lambda read: [spread(values), spread(decode(read[0]))])


def _finite(values: list[float]) -> list[float]:
    isfinite, nan = math.isfinite, math.nan
    if isfinite(sum(values)):
        return values  # norms are not negative, so that none makes up for another one
    return [value if isfinite(value) else nan for value in values]


def _spread(tensors: Sequence[Any]) -> Decode:
    """Return what puts values at the places of the tensors that are there; it keeps no tensor."""
    missing = [place for place, tensor in enumerate(tensors) if tensor is None]

    def spread(values: list[Any]) -> list[Any]:
        for place in missing:
            values.insert(place, None)
        return values

    return spread
