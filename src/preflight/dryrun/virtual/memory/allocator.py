"""CUDA's caching allocator, simulated: what PyTorch asks for, what it holds, and when the device is full.

Sizes and rules are those of ``c10/cuda/CUDACachingAllocator.cpp`` (PyTorch 2.4 to 2.13).
Only the standard library is used here, and addresses are those of an imagined device.
"""

from __future__ import annotations

import os
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

MIN_BLOCK = 512
SMALL = 1 << 20  # requests up to 1 MiB come from the small pool
SMALL_SEGMENT = 2 << 20
LARGE_SEGMENT = 20 << 20
LARGE_FROM = 10 << 20  # requests below share segments of 20 MiB; larger ones get a segment of their own
ROUND_LARGE = 2 << 20
_ADDRESSES = 1 << 42  # of an expandable segment, more than any device has memory


class OutOfMemory(Exception):
    """The device has no room for a new segment, and nothing that is cached could be given back."""

    def __init__(self, requested: int, allocated: int, reserved: int) -> None:
        super().__init__(requested)
        self.requested, self.allocated, self.reserved = requested, allocated, reserved


@dataclass(eq=False, slots=True)
class Block:
    """A piece of a segment; of an expandable one, also addresses that no memory lies behind (not ``mapped``)."""

    address: int
    size: int
    segment: Segment
    stream: int
    small: bool
    requested: int = 0
    free: bool = True
    mapped: bool = True
    before: Block | None = None
    after: Block | None = None

    def __lt__(self, other: Block) -> bool:
        return (self.size, self.address) < (other.size, other.address)


@dataclass(eq=False, slots=True)
class Segment:
    """Memory that was taken from the device in one piece, or grows (expandable); ``size`` is what it has taken."""

    address: int
    size: int
    stream: int
    small: bool
    expandable: bool = False
    first: Block | None = None


@dataclass(slots=True)
class CachingAllocator:
    """The allocator of one device.

    Args:
        capacity: Bytes that PyTorch can take from the device; None has no limit.
        limit: Bytes that PyTorch allows itself (``torch.cuda.set_per_process_memory_fraction``); None has none.
        expandable: ``expandable_segments:True``; None asks the environment at the first request, as PyTorch does, so that
            a script may still say it.
        watch: Is told when memory is taken from the device or given back: what happened, address, bytes.
    """

    capacity: int | None = None
    expandable: bool | None = False
    allocated: int = 0
    reserved: int = 0
    peak_allocated: int = 0
    peak_reserved: int = 0
    retries: int = 0
    watch: Callable[[str, int, int], None] | None = None
    limit: int | None = None
    segments: list[Segment] = field(default_factory=list)
    _free: dict[tuple[int, bool], list[Block]] = field(default_factory=dict)
    _next_address: int = 0x7F0000000000

    def allocate(self, size: int, stream: int = 0) -> Block:
        """Return a block for a request.

        Args:
            size: Bytes; a request for nothing gets no block from PyTorch and must not come here.
            stream: The stream that the block is used on; streams do not share blocks.

        Raises:
            OutOfMemory: There is no room.
        """
        if self.expandable is None:
            self.expandable = asked_to_expand()
        rounded = round_size(size)
        small = rounded <= SMALL
        pool = self._free.setdefault((stream, small), [])
        block = self._best_fit(pool, rounded) or self._grow(rounded, stream, small)
        if block is None and self._release_cached():
            self.retries += 1
            block = self._grow(rounded, stream, small)
        if block is None:
            raise OutOfMemory(size, self.allocated, self.reserved)
        self._split(block, rounded)
        block.free, block.requested = False, size
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        return block

    def free(self, block: Block) -> None:
        """Take a block back; it is merged with its free neighbours and kept."""
        self.allocated -= block.size
        block.requested = 0
        self._keep(block)

    def lose(self, size: int) -> None:
        """Something beside PyTorch takes memory of the device for good, as a communication library does."""
        if self.capacity is not None:
            self.capacity = max(0, self.capacity - size)

    def empty_cache(self) -> None:
        """Give back what is cached and whole (``torch.cuda.empty_cache``)."""
        self._release_cached()

    def reset_peaks(self) -> None:
        """Begin the peaks anew (``torch.cuda.reset_peak_memory_stats``)."""
        self.peak_allocated, self.peak_reserved = self.allocated, self.reserved

    def _best_fit(self, pool: list[Block], size: int) -> Block | None:
        at = bisect_left(pool, size, key=lambda block: block.size)
        if at == len(pool):
            return None
        # What may grow counts as large as it can become: a block that cannot is taken before it.
        while self.expandable and at + 1 < len(pool) and _room(pool[at + 1]) < _room(pool[at]):
            at += 1
        return pool.pop(at)

    def _grow(self, size: int, stream: int, small: bool) -> Block | None:
        if self.expandable:
            return self._extend(size, stream, small)
        wanted = segment_size(size)
        if not self._has(wanted):
            return None
        segment = self._new_segment(wanted, stream, small, expandable=False)
        block = Block(segment.address, wanted, segment, stream, small)
        segment.first = block
        return block

    def _extend(self, size: int, stream: int, small: bool) -> Block | None:
        """Map pages in the expandable segment of a pool, in the smallest gap with room; what is free beside it counts."""
        segment = next(
            (s for s in self.segments if s.expandable and s.stream == stream and s.small == small), None
        ) or self._new_segment(0, stream, small, expandable=True)
        block = next((start for gap in _gaps(segment) if _reach(start := _with_free_before(gap), size) >= size), None)
        while block is not None and not (block.free and block.size >= size):
            gap, wanted = (block.after, size - block.size) if block.free else (block, size)
            block = gap if gap is not None and self._map(gap, wanted) else None
        if block is not None:
            self._forget(block)
        return block

    def _map(self, gap: Block, size: int) -> bool:
        """Put memory behind the first pages of a gap, which then is a free block; False where the device is full."""
        page = _page(gap)
        more = min(gap.size, -(-size // page) * page)
        if not self._has(more):
            return False
        if more < gap.size:
            rest = self._cut(gap, more)
            rest.free, rest.mapped = False, False
        gap.mapped = True
        gap.segment.size += more
        self._reserve(more)
        self._tell("segment_map", gap.address, more)
        self._keep(gap)
        return True

    def _unmap(self, block: Block) -> bool:
        """Give the whole pages of a free block of an expandable segment back; False where it has none."""
        page, base = _page(block), block.segment.address
        start = base + -(-(block.address - base) // page) * page
        end = base + (block.address + block.size - base) // page * page
        if end <= start:
            return False
        self._forget(block)
        pool = self._free[(block.stream, block.small)]
        if end < block.address + block.size:
            insort(pool, self._cut(block, end - block.address))
        gap = block
        if start > block.address:
            gap = self._cut(block, start - block.address)
            insort(pool, block)
        gap.free, gap.mapped = False, False
        gap.segment.size -= end - start
        self.reserved -= end - start
        self._tell("segment_unmap", start, end - start)
        for other in (gap.before, gap.after):
            if other is not None and not other.mapped:
                self._merge(gap, other)
        return True

    def _has(self, more: int) -> bool:
        """Whether so many bytes may still be taken from the device."""
        return all(most is None or self.reserved + more <= most for most in (self.capacity, self.limit))

    def _new_segment(self, size: int, stream: int, small: bool, expandable: bool) -> Segment:
        segment = Segment(self._next_address, size, stream, small, expandable)
        self._next_address += _ADDRESSES if expandable else size + ROUND_LARGE
        self.segments.append(segment)
        if expandable:
            segment.first = Block(segment.address, _ADDRESSES, segment, stream, small, free=False, mapped=False)
        self._reserve(size)
        if size:
            self._tell("segment_alloc", segment.address, size)
        return segment

    def _tell(self, action: str, address: int, size: int) -> None:
        if self.watch is not None:
            self.watch(action, address, size)

    def _reserve(self, size: int) -> None:
        self.reserved += size
        self.peak_reserved = max(self.peak_reserved, self.reserved)

    def _split(self, block: Block, size: int) -> None:
        rest = block.size - size
        if rest < MIN_BLOCK if (block.small or self.expandable) else rest <= SMALL:
            return
        insort(self._free.setdefault((block.stream, block.small), []), self._cut(block, size))

    def _cut(self, block: Block, size: int) -> Block:
        """Leave a block its first bytes, and return the rest as a block after it."""
        rest = Block(
            block.address + size,
            block.size - size,
            block.segment,
            block.stream,
            block.small,
            before=block,
            after=block.after,
        )
        if block.after is not None:
            block.after.before = rest
        block.after, block.size = rest, size
        return rest

    def _keep(self, block: Block) -> None:
        """Merge a block with its free neighbours, and keep it for requests."""
        block.free = True
        for other in (block.before, block.after):
            if other is not None and other.free:
                self._forget(other)
                self._merge(block, other)
        insort(self._free.setdefault((block.stream, block.small), []), block)

    def _merge(self, block: Block, other: Block) -> None:
        """Let a block take in its neighbour."""
        if other is block.before:
            block.address, block.before = other.address, other.before
            if other.before is not None:
                other.before.after = block
            else:
                block.segment.first = block
        else:
            block.after = other.after
            if other.after is not None:
                other.after.before = block
        block.size += other.size

    def _forget(self, block: Block) -> None:
        pool = self._free[(block.stream, block.small)]
        at = bisect_left(pool, block)
        if at < len(pool) and pool[at] is block:
            del pool[at]

    def _release_cached(self) -> bool:
        """Give segments that are free as a whole back to the device; of an expandable one, every page that is free."""
        released = False
        for segment in list(self.segments):
            first = segment.first
            if segment.expandable:
                for block in [block for block in blocks(segment) if block.free]:
                    released = self._unmap(block) or released
            elif first is not None and first.free and first.after is None:
                self._forget(first)
                self.segments.remove(segment)
                self.reserved -= segment.size
                self._tell("segment_free", segment.address, segment.size)
                released = True
        return released


def asked_to_expand() -> bool:
    """Whether the environment asks for expandable segments, by the newer name of the variable or the older one."""
    told = os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or ""
    return "expandable_segments:true" in told.lower().replace(" ", "")


def blocks(segment: Segment) -> Iterator[Block]:
    """Yield the blocks of a segment by their addresses."""
    block = segment.first
    while block is not None:
        following = block.after
        yield block
        block = following


def _page(block: Block) -> int:
    return SMALL_SEGMENT if block.small else LARGE_SEGMENT


def _room(block: Block) -> int:
    """Return what a free block has or can grow to."""
    return block.size + (block.after.size if block.after is not None and not block.after.mapped else 0)


def _gaps(segment: Segment) -> list[Block]:
    """Return the addresses of a segment that no memory lies behind, the smallest piece first."""
    return sorted(block for block in blocks(segment) if not block.mapped)


def _with_free_before(gap: Block) -> Block:
    return gap.before if gap.before is not None and gap.before.free else gap


def _reach(block: Block | None, size: int) -> int:
    """Return the bytes from a block on that nobody uses, as far as they are asked for."""
    found = 0
    while found < size and block is not None and (block.free or not block.mapped):
        found, block = found + block.size, block.after
    return found


def round_size(size: int) -> int:
    """Return the bytes of the block for a request: at least 512, and a multiple of it."""
    return max(MIN_BLOCK, -(-size // MIN_BLOCK) * MIN_BLOCK)


def segment_size(size: int) -> int:
    """Return what is taken from the device for a block that is nowhere free."""
    if size <= SMALL:
        return SMALL_SEGMENT
    if size < LARGE_FROM:
        return LARGE_SEGMENT
    return -(-size // ROUND_LARGE) * ROUND_LARGE
