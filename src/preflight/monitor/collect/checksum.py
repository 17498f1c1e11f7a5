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

from collections.abc import Callable, Iterator, Sequence
from typing import Any

SMALL = 1024
"""Words of a tensor up to which each counts by itself: two sums cost as much as mixing about a thousand words."""

WIDTHS = ((1 << 15, 149), (1 << 17, 269), (1 << 23, 1033), (1 << 62, 4093))
"""Columns for tensors of fewer than so many words: near the root, so that little is left to mix."""

STEP = 1 << 16
"""Words summed at a time on a CPU: the second pass then reads them from its cache."""

SERIAL = 32000
"""Words that torch sums without waking its other threads, which costs more than it saves while they are busy."""

SHARED = 1 << 20
"""Words of a tensor from which on its sums are shared among the threads."""

COPY = 1 << 20
"""Words of a tensor that is not contiguous that are copied at a time."""

_MASK = (1 << 64) - 1
_HALF = 1 << 63
_SIZES = 4096
"""Sizes whose grids are remembered."""

KEPT = 1 << 17
"""Words and sums of a layout that are kept until the next time: a megabyte."""

_PLANS = 16
"""Layouts remembered; a program has a few, one per list of tensors that it is asked for."""


class _Plan:
    """What depends on the sizes of the tensors alone: where each one's numbers stand, and their positions' keys."""

    __slots__ = ("counted", "ends", "keys", "last", "lengths")

    keys: Any
    """An odd random-looking number for each number that counts."""
    ends: Any
    """Where segments end, and then where the ones before them do.

    For each tensor its words and its rows in the running sum of these; and its words, rows and columns in the running
    sum of the images, which follows the other; both the same where it has none.
    """
    counted: int
    """How many numbers are words or rows: the columns' come after."""
    lengths: Any
    """What the length of each tensor in bytes adds to its number."""
    last: tuple[Any, Any] | None
    """On a CPU the words and sums that were made numbers of the last time, and these numbers."""


_plans: dict[Any, _Plan] = {}
_bytes: dict[Any, int] = {}
_zeros: dict[Any, Any] = {}
_single: dict[int, Any] = {}
_grids: dict[int, tuple[int, int, int]] = {}


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
                flat[place] = _sums(torch, flat[place], sizes[place], each, rows, columns)
        flats = [flat]
    plan = _plan(torch, tensors[0].device, sizes, kinds)
    words = [_words(torch, flat) for flat in flats]
    numbers = torch.cat([_filling(torch, plan.keys, 1), *words, *rows, *columns])
    last = plan.last
    if last is not None and torch.equal(numbers, last[0]):
        return last[1], list  # as before nearly every step: what is made of them takes a fifth of the time
    sums = torch.cat([numbers[: plan.counted].cumsum(0), _mix(torch, numbers, plan.keys).cumsum(0)])
    made = _numbers(torch, sums.index_select(0, plan.ends), plan.lengths)
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
            tensor = _sums(torch, tensor, size, each, rows, columns)
        flat = flats.setdefault(kind, [])
        flat.append(tensor)
        if size & 7:
            flat.append(_filling(torch, tensor, (8 - (size & 7)) // each))
    return [*flats.values()], sizes, kinds


def _sums(torch: Any, tensor: Any, size: int, each: int, rows: list[Any], columns: list[Any]) -> Any:
    """Add a tensor's sums to the lists; return the elements that fill no row."""
    count, width, _ = _grid(size)
    across = width * 8 // each
    start = tensor.storage_offset()
    cpu = tensor.is_cpu
    if tensor.is_contiguous() and not (start * each & 7) and (cpu or not tensor.data_ptr() & 7):
        grid = tensor.as_strided((count, across), (across, 1)).view(torch.int64)
        rest = tensor.as_strided((size // each - count * across,), (1,), start + count * across)
        step = _step(torch, count * width) if cpu else size
        if count * width <= step:
            rows.append(grid.sum(1))
            columns.append(grid.sum(0))
            return rest
        pieces = grid.split(step // width)
    else:
        pieces = _copied(torch, tensor, count, across)
        rest = _span(torch, tensor, count * across, size // each)
    total = 0
    for piece in pieces:
        rows.append(piece.sum(1))
        total = piece.sum(0).add_(total)
    columns.append(total)
    return rest


def _grid(size: int) -> tuple[int, int, int]:
    """Return for so many bytes the rows, the columns, and the words that are in no row."""
    grid = _grids.get(size)
    if grid is None:
        words = size >> 3
        width = next(width for limit, width in WIDTHS if words < limit)
        grid = words // width, width, words % width + bool(size & 7)
        if size <= SMALL * 8:
            grid = 0, 0, -(-size // 8)
        if len(_grids) >= _SIZES:
            _grids.clear()
        _grids[size] = grid
    return grid


def _step(torch: Any, words: int) -> int:
    """Return how many words to sum at a time on a CPU."""
    threads = torch.get_num_threads()
    if threads == 1:
        return STEP
    return min(STEP, SERIAL) if words < SHARED else STEP * 2 * int(threads)


def _copied(torch: Any, tensor: Any, count: int, across: int) -> Iterator[Any]:
    """Yield the rows of words of a tensor that is not contiguous, a copy of a few at a time."""
    step = max(1, COPY * 8 // (across * tensor.itemsize))
    for first in range(0, count, step):
        last = min(count, first + step)
        piece = _span(torch, tensor, first * across, last * across)
        yield piece.view(last - first, across).view(torch.int64)


def _span(torch: Any, tensor: Any, first: int, last: int) -> Any:
    """Return a flat copy of a range of a tensor's elements in logical order, without copying much of the others."""
    while tensor.dim() > 1 and tensor.shape[0] == 1:
        tensor = tensor[0]
    if tensor.dim() <= 1:
        return tensor.reshape(-1)[first:last].clone(memory_format=torch.contiguous_format)
    each = tensor.numel() // tensor.shape[0]
    low, high = first // each, -(-last // each)
    if (high - low) * each <= 2 * (last - first) or high - low > 4:
        return tensor[low:high].reshape(-1)[first - low * each : last - low * each].clone()
    inner = [
        _span(torch, tensor[row], max(first - row * each, 0), min(last - row * each, each)) for row in range(low, high)
    ]
    return torch.cat(inner)


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
    count, width, _ = _grid(size)
    numbers = words
    keys = _single.get(size)
    if keys is None:
        if len(_single) >= _PLANS:
            _single.clear()
        keys = _single[size] = _planned(torch, words.device, [size], [words.dtype]).keys[1:]
    if count:
        grid = words[:, : count * width].unflatten(1, (count, width))
        numbers = torch.cat([words[:, count * width :], grid.sum(2), grid.sum(1)], 1)
    strong, plain = _mix(torch, numbers, keys).sum(1).tolist(), words.sum(1).tolist()
    return [_number(one, other, size) for one, other in zip(strong, plain, strict=True)]


def _number(strong: int, plain: int, size: int) -> int:
    """Make the number of a tensor from the sum of the images, that of its words, and its length in bytes."""
    strong = strong + size * 0x9E3779B97F4A7C15 & _MASK
    strong = (strong ^ strong >> 31) * 0xBF58476D1CE4E5B9
    return (strong >> 14 & (1 << 50) - 1) << 13 | plain % 8191


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


def _mix(torch: Any, numbers: Any, keys: Any) -> Any:
    """Send each number through a bijection of 64 bits that its key chooses.

    Multiplications carry changes to the upper half, exclusive ors of that half bring them down into the lower one.
    """
    numbers = numbers.bitwise_xor(keys)
    # A shift to the right would repeat the sign and need a mask; as halves it is one operation.
    halves = numbers.view(torch.int32)
    lower, upper = halves[..., 0::2], halves[..., 1::2]
    lower.bitwise_xor_(upper)
    numbers.mul_(keys)
    lower.bitwise_xor_(upper)
    numbers.mul_(-0x40A7B892E31B1A47)
    lower.bitwise_xor_(upper)
    return numbers


def _numbers(torch: Any, picked: Any, lengths: Any) -> Any:
    """Make the number of each tensor from the running sums where its segments end and where they begin."""
    ends, begins = picked.view(2, 5, -1)
    sums = ends - begins
    strong = sums[2:].sum(0).add_(lengths)
    strong = strong.bitwise_xor_((strong >> 31).bitwise_and_((1 << 33) - 1)).mul_(_signed(0xBF58476D1CE4E5B9))
    strong = (strong >> 14).bitwise_and_((1 << 50) - 1) << 13
    return strong.bitwise_or_((sums[0] + sums[1]).remainder_(8191))


def _signed(number: int) -> int:
    """Return the integer with a sign that has the same 64 bits."""
    return (number + _HALF & _MASK) - _HALF


def _plan(torch: Any, device: Any, sizes: list[int], kinds: list[Any]) -> _Plan:
    """Return the plan for tensors of these kinds and sizes, remembered or made."""
    key = (device, *sizes, *kinds)
    plan = _plans.get(key)
    if plan is None:
        if len(_plans) >= _PLANS:
            _plans.clear()
        plan = _plans[key] = _planned(torch, device, sizes, kinds)
    return plan


def _planned(torch: Any, device: Any, sizes: list[int], kinds: list[Any]) -> _Plan:
    """Lay out the segments: words by kind, then rows, then columns, each in the order of the tensors."""
    grids = [_grid(size) for size in sizes]
    by_kind = [index for kind in dict.fromkeys(kinds) for index, own in enumerate(kinds) if own == kind]
    segments = [(index, 0, 0, grids[index][2]) for index in by_kind]
    segments += [(index, 1, 8192, rows) for index, (rows, _, _) in enumerate(grids)]
    segments += [(index, 2, 4096, columns) for index, (_, columns, _) in enumerate(grids)]
    # Before everything stands one number that belongs to nobody, so that each segment has an end before its beginning.
    positions, end = [torch.zeros(1, dtype=torch.int64, device=device)], 0
    plan, count = _Plan(), len(sizes)
    plan.last = None
    plan.counted = 1 + sum(rows + words for rows, _, words in grids)
    ends, begins = [0] * (5 * count), [0] * (5 * count)
    for index, which, first, length in segments:
        if not length:
            continue
        positions.append(torch.arange(first, first + length, device=device))
        if which < 2:
            begins[which * count + index], ends[which * count + index] = end, end + length
        place = (2 + which) * count + index
        begins[place], ends[place] = plan.counted + end, plan.counted + end + length
        end += length
    keys = torch.cat(positions).mul_(-0x61C8864680B583EB)
    plan.keys = _mix(torch, keys, 0x3243F6A8885A308D).bitwise_or_(1)
    plan.ends = torch.tensor(ends + begins, dtype=torch.int64, device=device)
    plan.lengths = torch.tensor([_signed(size * 0x9E3779B97F4A7C15) for size in sizes], device=device)
    return plan
