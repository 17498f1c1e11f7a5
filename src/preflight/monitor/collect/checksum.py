"""One integer per tensor, over its bits, in two passes over the memory and no copy of it.

The bytes of a tensor, in logical order, are 64-bit words, the last one filled up with zeros.
A small tensor's words count one by one.
A larger one's words are laid out in rows of a prime number of columns; each row's sum and each column's sum counts,
and each word of what fills no row.
Every number that counts goes through a bijection of 64 bits that depends on its position, and the results are added:
this sum M is the strong part.
T is the sum of the words themselves, modulo 8191.
The number of a tensor is M mixed with the length in bytes, its upper 50 bits, followed by the 13 bits of T.

What is certain: one unit in the last place (the bit pattern of one element, or of one component, goes up or down by
one, the sign of a zero flips, or zero steps to the smallest number of the other sign) always changes T.
The sum of the words changes by d * 2^k, or by that and 2^64 where it wraps.
2 has the order 13 modulo 8191, so d * 2^k is none of zero and +-2^64 = +-2^12 modulo 8191 unless k plus the place of
d's only bit is 12 modulo 13: that is bit 12, 25, 38 or 51, and no element of a whole number of bytes begins or ends
there.
(Where zero steps over to the other sign d has two bits, whose distance is no multiple of 13.)

What is all but certain: any other change.
A changed element changes its row's sum and its column's; of two elements swapped, both rows' sums change, or, in one
row, both columns' (elements of one word change the word).
Sums that changed go unseen only where the changes of their images cancel in all 50 bits.
Only changes that keep every row's and every column's sum escape: of at least four words, at the corners of a rectangle
of the layout, by the same amount.
Were there 512 columns, exchanging two rows of a matrix of one-hot rows would be such a change; with a prime number of
columns it is not, unless the matrix is as wide in words as a multiple of that prime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .checksum_grid import SERIAL, SMALL, grid_of, sums_of
from .checksum_mixing import mix, number_of, numbers_of
from .checksum_plan import PLANS, plan_for, plan_of

_bytes: dict[Any, int] = {}
_zeros: dict[Any, Any] = {}
_single: dict[int, Any] = {}

KEPT = 1 << 17
"""Words and sums of a layout that are kept until the next time: a megabyte."""


def checksums(
    torch: Any, tensors: Sequence[Any], first: Callable[[Any], None] | None = None, places: Sequence[int] = ()
) -> tuple[Any, Callable[[list[int]], list[int]]]:
    """Start to compute the number of each tensor.

    Args:
        torch: The torch that is loaded.
        tensors: Plain strided tensors of one device.
        first: Called with some of the tensors, each right before it is read.
        places: Where those stand.

    Returns:
        A small vector on the device, and what makes the numbers from its values.
    """
    rows: list[Any] = []
    columns: list[Any] = []
    chosen = frozenset(places) if first is not None else frozenset()
    kinds = [tensor.dtype for tensor in tensors]
    sizes = _sizes(torch, tensors, kinds)
    if sizes is None:
        flats, sizes, kinds = _apart(torch, tensors, first, chosen, rows, columns)
    else:
        # As the parameters of a model nearly always are: only those that are long need be looked at one by one.
        flat, each = list(tensors), _bytes[kinds[0]]
        for place in [place for place, size in enumerate(sizes) if size > SMALL * 8 or place in chosen]:
            if first is not None and place in chosen:
                first(flat[place])
            if sizes[place] > SMALL * 8:
                flat[place] = sums_of(torch, flat[place], sizes[place], each, rows, columns)
        flats = [flat]
    plan = plan_for(torch, tensors[0].device, sizes, kinds)
    words = [_words(torch, flat) for flat in flats]
    numbers = torch.cat([_filling(torch, plan.keys, 1), *words, *rows, *columns])
    last = plan.last
    if last is not None and torch.equal(numbers, last[0]):
        return last[1], list  # as before nearly every step: what is made of them takes a fifth of the time
    sums = torch.cat([numbers[: plan.counted].cumsum(0), mix(torch, numbers, plan.keys).cumsum(0)])
    made = numbers_of(torch, sums.index_select(0, plan.ends), plan.lengths)
    if numbers.is_cpu and len(numbers) <= KEPT:
        plan.last = numbers, made
    return made, list


def _sizes(torch: Any, tensors: Sequence[Any], kinds: list[Any]) -> list[int] | None:
    """Return the bytes of tensors of one usual kind that are whole words each; None where they are others."""
    each = _usual(torch).get(kinds[0])
    if each is None or kinds.count(kinds[0]) < len(kinds):
        return None
    sizes = [count * each for count in map(torch.Tensor.numel, tensors)]
    return None if any(size & 7 for size in sizes) else sizes


def _apart(
    torch: Any,
    tensors: Sequence[Any],
    first: Callable[[Any], None] | None,
    chosen: frozenset[int],
    rows: list[Any],
    columns: list[Any],
) -> tuple[list[list[Any]], list[int], list[Any]]:
    """Add the sums of tensors of any kinds to the lists; return what counts by itself of each kind, the sizes and the kinds."""
    flats: dict[Any, list[Any]] = {}
    sizes: list[int] = []
    kinds: list[Any] = []
    usual = _usual(torch)
    for place, tensor in enumerate(tensors):
        if first is not None and place in chosen:
            first(tensor)
        kind = tensor.dtype
        if kind not in usual:
            tensor = _as_integers(torch, tensor)
            kind = tensor.dtype
        each = usual[kind]
        size = tensor.numel() * each
        sizes.append(size)
        kinds.append(kind)
        if size > SMALL * 8:
            tensor = sums_of(torch, tensor, size, each, rows, columns)
        flat = flats.setdefault(kind, [])
        flat.append(tensor)
        if size & 7:
            flat.append(_filling(torch, tensor, (8 - (size & 7)) // each))
    return [*flats.values()], sizes, kinds


def checksum(torch: Any, tensors: Sequence[Any]) -> list[int] | None:
    """Compute the numbers that `checksums` gives a few tensors of one kind and shape on a CPU, in fewer operations.

    A batch is a tensor or two: what is set up for many would take longer than reading them.

    Args:
        torch: The torch that is loaded.
        tensors: Plain strided tensors.

    Returns:
        The numbers; None where they are to be taken with others, because they are long or one does not lie in one piece.
    """
    usual = _usual(torch)
    if tensors[0].dtype not in usual:
        tensors = [_as_integers(torch, tensor) for tensor in tensors]
    each = usual[tensors[0].dtype]
    size: int = tensors[0].numel() * each
    if size & 7 or size > SERIAL * 8:
        return None
    if any(not tensor.is_contiguous() or tensor.storage_offset() * each & 7 for tensor in tensors):
        return None
    flat = tensors[0].view(-1) if len(tensors) == 1 else torch.stack(tensors).view(-1)
    return of_words(torch, flat.view(torch.int64).view(len(tensors), size >> 3), size)


def of_words(torch: Any, words: Any, size: int) -> list[int]:
    """Compute the numbers of tensors of one size that are the rows of a matrix of words on a CPU.

    Args:
        torch: The torch that is loaded.
        words: The matrix; it is not changed.
        size: The bytes of each row.
    """
    count, width, _ = grid_of(size)
    numbers = words
    keys = _single.get(size)
    if keys is None:
        if len(_single) >= PLANS:
            _single.clear()
        keys = _single[size] = plan_of(torch, words.device, [size], [words.dtype]).keys[1:]
    if count:
        grid = words[:, : count * width].unflatten(1, (count, width))
        numbers = torch.cat([words[:, count * width :], grid.sum(2), grid.sum(1)], 1)
    strong, plain = mix(torch, numbers, keys).sum(1).tolist(), words.sum(1).tolist()
    return [number_of(one, other, size) for one, other in zip(strong, plain, strict=True)]


def _filling(torch: Any, tensor: Any, size: int) -> Any:
    """Return so many zeros of a tensor's own kind."""
    key = (tensor.device, tensor.dtype, size)
    zeros = _zeros.get(key)
    if zeros is None:
        zeros = torch.zeros(size, dtype=tensor.dtype, device=tensor.device)
        _zeros[key] = zeros
    return zeros


def _usual(torch: Any) -> dict[Any, int]:
    """Return the bytes of the kinds of numbers that every operation used here is offered for."""
    if not _bytes:
        for kind in "float32 bfloat16 float16 int64 float64 int32 uint8".split():
            _bytes[getattr(torch, kind)] = getattr(torch, kind).itemsize
    return _bytes


def _as_integers(torch: Any, tensor: Any) -> Any:
    """Return the same bits as integers of the elements' size, or, of 16 bytes, as two words each."""
    each = tensor.itemsize
    if each > 8:
        return tensor.reshape(-1).view(torch.int64)
    return tensor.view({1: torch.uint8, 2: torch.float16, 4: torch.int32}.get(each, torch.int64))


def _words(torch: Any, flat: list[Any]) -> Any:
    """Join tensors of one kind, whose bytes are whole words together, as one vector of words."""
    joined = torch._C._nn.flatten_dense_tensors(flat)
    if joined.storage_offset() * joined.itemsize & 7 or (joined.device.type != "cpu" and joined.data_ptr() & 7):
        # A single tensor is not copied, and it need not begin at a whole word: as words it could not be read.
        joined = joined.clone()
    return joined.view(torch.int64)
