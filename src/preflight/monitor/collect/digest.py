"""Digests of tensors: exact numbers over their bits, norms, and samples of batches.

Everything here is computed where the tensors are, for many tensors at once, and read later without waiting for the
device; nothing changes what the program computes, draws a random number, keeps a tensor or raises.
The number over the bits is explained in `checksum`.
It takes the place of `torch.hash_tensor`, which is an exclusive or: blind to swaps, and to any two equal changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from . import plain, usual
from .checksum import checksum, checksums
from .pending import Pending, to_host

SAMPLE = 1 << 16
"""Bytes that are looked at from each end of a tensor of a batch."""

_FEW = 4
"""Tensors that are taken one by one."""

_Readable = Callable[[Any, Any], Sequence[Any] | None]
_Compute = Callable[[Any, Sequence[Any]], tuple[Any, Callable[[list[Any]], list[Any]]]]


def fingerprints(tensors: Sequence[Any]) -> Pending | None:
    """Start to compute an integer of 63 bits over the bits of each tensor.

    Tensors whose elements have the same bits in the same logical order have the same number, however they lie in
    memory and on whatever device they are; one unit in the last place anywhere, or two unequal elements swapped, give
    another.
    Of a DTensor the local shard counts, of a sparse tensor what it stores, as it stores it.

    Args:
        tensors: Tensors of any kind, on any devices; None stands for a tensor that is not there.

    Returns:
        The numbers to come, None for each tensor that cannot be read; or None where nothing may be computed now.
    """
    return _quick(tensors, usual.fingerprints, bits=True) or _started(tensors, checksums, plain.parts)


def samples(tensors: Sequence[Any]) -> Pending | None:
    """Start to compute for each tensor of a batch the fingerprint of its first and last 64 KiB.

    Args:
        tensors: The tensors of the batch.
    """
    return _at_once(tensors) or _started(tensors, checksums, _ends)


def _at_once(tensors: Sequence[Any]) -> Pending | None:
    """The fingerprints of a few plain tensors on a CPU, each by itself; None where one is not such a tensor."""
    torch = plain.loaded()
    try:
        if len(tensors) > _FEW or torch is None or plain.impossible(torch):
            return None
        if not all(plain.simple(tensor) and tensor.is_cpu for tensor in tensors):
            return None
        found: list[int] = []
        with plain.Outside(torch):
            parts = [_ends_of(tensor) for tensor in tensors]
            flat = [part for own in parts for part in own]
            # Inputs and targets are often of one kind and shape: then all are taken at once.
            alike = all(part.dtype is flat[0].dtype and part.shape == flat[0].shape for part in flat)
            taken = [checksum(torch, few) for few in ([flat] if alike else [[part] for part in flat])]
            if None in taken:
                return None
            numbers = iter([number for own in taken for number in own or ()])
            for own in parts:
                known = list(islice(numbers, len(own)))
                found.append(_chained(known) if len(known) > 1 else known[0])
        return Pending.known(found)
    except Exception:
        return None


def norms(tensors: Sequence[Any]) -> Pending | None:
    """Start to compute the Euclidean norm of each tensor.

    It is taken in float32 where the tensor's own kind is coarser, and in the tensor's kind elsewhere.
    A norm that is not finite is NaN; beyond 1.8e19 the squares of float32 are not finite either.
    Of a DTensor the local shard counts.

    Args:
        tensors: Tensors of any kind, on any devices; None stands for a tensor that is not there.

    Returns:
        The norms to come, None for each tensor that cannot be read; or None where nothing may be computed now.
    """
    return _quick(tensors, usual.norms) or _started(tensors, _norms, _numbers_of)


def norms_and_fingerprints(tensors: Sequence[Any]) -> Pending | None:
    """Start to compute the norm and the fingerprint of each tensor; the values are the list of either.

    Args:
        tensors: Tensors of any kind, on any devices; None stands for a tensor that is not there.

    Returns:
        The numbers to come; or None where nothing may be computed now.
    """
    quick = _quick(tensors, usual.norms_and_fingerprints, bits=True, on="cpu")
    if quick is not None:
        return quick
    sizes, bits = norms(tensors), fingerprints(tensors)
    return None if sizes is None or bits is None else Pending.joined([sizes, bits])


def _quick(
    tensors: Sequence[Any],
    start: Callable[[Any, Sequence[Any], usual.Alike], Pending],
    bits: bool = False,
    on: str | None = None,
) -> Pending | None:
    """Compute for a list of tensors that are alike; None where they are not, or where nothing may be computed now."""
    torch = plain.loaded()
    try:
        if torch is None or plain.impossible(torch):
            return None
        with plain.Outside(torch):
            found = usual.alike(torch, tensors, bits)
            if found is None or on not in (None, found.there[0].device.type):
                return None
            return start(torch, tensors, found)
    except Exception:
        return None


def _started(
    tensors: Sequence[Any],
    compute: _Compute,
    readable: _Readable,
) -> Pending | None:
    """Compute for the parts of all tensors, one device after the other."""
    torch = plain.loaded()
    try:
        if torch is None or plain.impossible(torch):
            return None
        with plain.Outside(torch):
            return _grouped(torch, tensors, compute, readable)
    except Exception:
        # The program must not fail because it is watched; without a digest nothing is claimed.
        return None


def _grouped(
    torch: Any,
    tensors: Sequence[Any],
    compute: _Compute,
    readable: _Readable,
) -> Pending:
    whole, simple = readable is not _ends, plain.simple
    groups: dict[Any, tuple[list[Any], list[int]]] = {}
    for index, tensor in enumerate(tensors):
        try:
            # Most tensors are plain ones: asking all questions of each would cost as much as a small one's number.
            parts = (tensor,) if whole and simple(tensor) else readable(torch, tensor)
        except Exception:
            continue
        for part in parts or ():
            device = part.device
            group = groups.get(device)
            if group is None:
                group = groups[device] = [], []
            group[0].append(part)
            group[1].append(index)
    reads, decodes = [], []
    for device, (members, owners) in groups.items():
        if device.type not in plain.DEVICES:
            continue
        try:
            result, decode = compute(torch, members)
            reads.append(to_host(torch, result))
            decodes.append((decode, owners))
        except Exception:
            # One device out of memory does not take the others' digests along.
            continue
    count = len(tensors)

    def finish(read: list[list[Any]]) -> list[Any]:
        if len(decodes) == 1 and decodes[0][1] == list(range(count)):
            return decodes[0][0](read[0])
        found: list[list[Any]] = [[] for _ in range(count)]
        for numbers, (decode, whose) in zip(read, decodes, strict=True):
            for index, number in zip(whose, decode(numbers), strict=True):
                found[index].append(number)
        return [_chained(own) if len(own) > 1 else own[0] if own else None for own in found]

    return Pending(reads, finish)


def _chained(numbers: list[int]) -> int:
    """Make one number of those of a tensor's parts."""
    made = 0
    for number in numbers:
        made = (made * 0x2545F4914F6CDD1D + number) & ((1 << 63) - 1)
    return made


def _ends(torch: Any, tensor: Any) -> Sequence[Any] | None:
    """Return the plain parts of a tensor, those that are too long as their beginning and their end."""
    parts = plain.parts(torch, tensor)
    return None if parts is None else [end for part in parts for end in _ends_of(part)]


def _ends_of(part: Any) -> list[Any]:
    each = SAMPLE // part.itemsize
    if part.numel() <= 2 * each:
        return [part]
    return [_end(part, each, last=False), _end(part, each, last=True)]


def _end(tensor: Any, count: int, last: bool) -> Any:
    """Return the first or last so many elements in logical order, without copying a large tensor."""
    while tensor.dim() > 1:
        each = tensor.numel() // tensor.shape[0]
        rows = min(-(-count // each), tensor.shape[0])
        tensor = tensor.narrow(0, tensor.shape[0] - rows if last else 0, rows)
        if rows > 1 or tensor.is_contiguous():
            break
        tensor = tensor[0]
    flat = tensor.reshape(-1)
    return flat[-count:] if last else flat[:count]


def _numbers_of(torch: Any, tensor: Any) -> Sequence[Any] | None:
    """Return the part of a tensor that holds its numbers: the values alone where it is sparse."""
    if isinstance(tensor, torch.Tensor) and tensor.layout is torch.sparse_coo and not tensor.is_coalesced():
        # Values of one place stand apart and would have to be added first, which on a device waits for it.
        return plain.parts(torch, tensor.coalesce())[-1:] if tensor.device.type == "cpu" else None  # type: ignore[index]
    parts = plain.parts(torch, tensor)
    return None if parts is None else parts[-1:]


def _norms(torch: Any, tensors: Sequence[Any]) -> tuple[Any, Callable[[list[Any]], list[Any]]]:
    """Compute the norms, the tensors of one kind at a time."""
    exact = torch.float32 if tensors[0].device.type == "mps" else torch.float64
    groups: dict[Any, list[int]] = {}
    for index, tensor in enumerate(tensors):
        groups.setdefault(tensor.dtype, []).append(index)
    order: list[int] = []
    made: list[Any] = []
    for kind, indices in groups.items():
        own = [tensors[index] for index in indices]
        order += indices
        made.append(torch.stack(_norms_of_kind(torch, kind, own, exact)).to(exact))

    def decode(numbers: list[Any]) -> list[Any]:
        values = [0.0] * len(order)
        for index, number in zip(order, numbers, strict=True):
            values[index] = number if math.isfinite(number) else math.nan
        return values

    return torch.cat(made), decode


def _norms_of_kind(torch: Any, kind: Any, tensors: list[Any], exact: Any) -> Sequence[Any]:
    # A tensor without elements has the norm of one zero: not every version of the fused kernel knows that.
    tensors = [tensor if tensor.numel() else tensor.new_zeros(1) for tensor in tensors]
    if kind in (torch.float32, torch.float64, torch.complex64, torch.complex128):
        return torch._foreach_norm(tensors, 2)  # type: ignore[no-any-return]
    if kind in (torch.bfloat16, torch.float16):
        try:
            return torch._foreach_norm(tensors, 2, torch.float32)  # type: ignore[no-any-return]
        except (TypeError, RuntimeError):
            # A version whose fused kernel cannot be told what to add up in: the tensors are made finer first.
            return torch._foreach_norm([tensor.float() for tensor in tensors], 2)  # type: ignore[no-any-return]
    if kind is torch.complex32:
        return torch._foreach_norm([tensor.to(torch.complex64) for tensor in tensors], 2)  # type: ignore[no-any-return]
    # Integers of 32 and 64 bits do not all fit into float32.
    wide = not kind.is_floating_point and kind.itemsize > 2
    return torch._foreach_norm([tensor.to(exact if wide else torch.float32) for tensor in tensors], 2)  # type: ignore[no-any-return]
