"""The sums over a long tensor that its number is made of: its words laid out in rows, each row's sum and each column's."""

from __future__ import annotations

from collections.abc import Iterator
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

_SIZES = 4096
"""Sizes whose grids are remembered."""

_grids: dict[int, tuple[int, int, int]] = {}


def grid_of(size: int) -> tuple[int, int, int]:
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


def sums_of(torch: Any, tensor: Any, size: int, each: int, rows: list[Any], columns: list[Any]) -> Any:
    """Add a tensor's sums to the lists; return the elements that fill no row."""
    count, width, _ = grid_of(size)
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
