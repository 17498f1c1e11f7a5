"""The simulated allocator against the rules of CUDA's: sizes, pools, splitting, merging, giving back."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.dryrun.virtual.memory.allocator import Block, CachingAllocator, OutOfMemory, round_size, segment_size

KIB, MIB = 1 << 10, 1 << 20

sizes = st.one_of(
    st.integers(1, 4096),
    st.integers(1, 2 * MIB),
    st.integers(1, 64 * MIB),
    st.sampled_from([512, MIB, MIB + 1, 10 * MIB]),
)
actions = st.lists(st.tuples(st.booleans(), sizes, st.integers(0, 30), st.integers(0, 1)), max_size=60)


def _chain(allocator: CachingAllocator) -> list[list[Block]]:
    chains = []
    for segment in allocator.segments:
        chain, block = [], segment.first
        while block is not None:
            chain.append(block)
            block = block.after
        chains.append(chain)
    return chains


def _check(allocator: CachingAllocator, live: list[Block]) -> None:
    chains = _chain(allocator)
    for segment, chain in zip(allocator.segments, chains, strict=True):
        assert sum(block.size for block in chain if block.mapped) == segment.size
        assert not any(block.free for block in chain if not block.mapped)
        assert not chain or chain[0].address == segment.address
        for first, second in pairwise(chain):
            assert first.address + first.size == second.address
            assert second.before is first
            assert not (first.free and second.free)  # neighbours that are free are one
            assert first.mapped or second.mapped  # and so are gaps
    taken = [block for chain in chains for block in chain if block.mapped and not block.free]
    assert {id(block) for block in taken} == {id(block) for block in live}
    assert allocator.allocated == sum(block.size for block in live)
    assert allocator.reserved == sum(segment.size for segment in allocator.segments)
    assert allocator.peak_allocated >= allocator.allocated
    assert allocator.peak_reserved >= allocator.reserved >= allocator.allocated
    for pool in allocator._free.values():
        assert pool == sorted(pool)
    cached = {id(block) for pool in allocator._free.values() for block in pool}
    assert cached == {id(block) for chain in chains for block in chain if block.free}


@pytest.mark.parametrize("expandable", [False, True])
@given(actions=actions, capacity=st.sampled_from([None, 64 * MIB, 200 * MIB]))
def test_blocks_never_overlap_and_the_accounts_add_up(
    expandable: bool, actions: list[tuple[bool, int, int, int]], capacity: int | None
) -> None:
    allocator = CachingAllocator(capacity, expandable)
    live: list[Block] = []
    for free, size, which, stream in actions:
        if free and live:
            allocator.free(live.pop(which % len(live)))
        else:
            try:
                block = allocator.allocate(size, stream)
            except OutOfMemory:
                assert capacity is not None
            else:
                assert block.size >= size
                assert block.stream == stream
                live.append(block)
        _check(allocator, live)
        if capacity is not None:
            assert allocator.reserved <= capacity
    for block in live:
        allocator.free(block)
    allocator.empty_cache()
    _check(allocator, [])
    assert (allocator.allocated, allocator.reserved) == (0, 0)


@given(st.integers(1, 1 << 34))
def test_a_block_is_a_multiple_of_512_and_no_larger_than_needed(size: int) -> None:
    assert round_size(size) % 512 == 0
    assert 0 <= round_size(size) - size < 512


@pytest.mark.parametrize(
    ("size", "segment"),
    [
        (512, 2 * MIB),
        (MIB, 2 * MIB),  # the last request of the small pool
        (MIB + 512, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),  # from 10 MiB on, a segment of its own in steps of 2 MiB
        (10 * MIB + 512, 12 * MIB),
        (101 * MIB, 102 * MIB),
    ],
)
def test_segments_have_the_sizes_of_cudas(size: int, segment: int) -> None:
    assert segment_size(size) == segment


def test_small_requests_share_a_segment() -> None:
    allocator = CachingAllocator()
    first, second = allocator.allocate(100), allocator.allocate(1000)
    assert (first.size, second.size) == (512, 1024)
    assert second.address == first.address + 512
    assert (allocator.allocated, allocator.reserved) == (1536, 2 * MIB)


def test_the_rest_of_a_large_block_is_only_split_off_above_one_mebibyte() -> None:
    allocator = CachingAllocator()
    whole = allocator.allocate(19 * MIB)
    assert (whole.size, allocator.reserved) == (20 * MIB, 20 * MIB)  # its own segment, the rest of 1 MiB stays inside
    allocator.free(whole)
    part = allocator.allocate(19 * MIB - 512)
    assert part.size == 19 * MIB - 512  # now the rest is above 1 MiB
    assert allocator.reserved == 20 * MIB


def test_the_smallest_block_that_fits_is_taken() -> None:
    allocator = CachingAllocator()
    blocks = [allocator.allocate(size * MIB) for size in (40, 12, 24)]
    places = [block.address for block in blocks]
    for block in blocks:
        allocator.free(block)
    assert allocator.allocate(22 * MIB).address == places[2]
    assert allocator.allocate(12 * MIB).address == places[1]
    assert allocator.reserved == 76 * MIB


def test_streams_share_nothing() -> None:
    allocator = CachingAllocator()
    allocator.free(allocator.allocate(12 * MIB, stream=0))
    allocator.allocate(12 * MIB, stream=1)
    assert allocator.reserved == 24 * MIB


def test_a_full_device_gets_its_cached_segments_back_first() -> None:
    allocator = CachingAllocator(capacity=40 * MIB)
    allocator.free(allocator.allocate(24 * MIB))
    allocator.allocate(30 * MIB)  # 24 cached and 30 wanted are more than 40: the cached segment goes back
    assert (allocator.reserved, allocator.retries) == (30 * MIB, 1)
    with pytest.raises(OutOfMemory) as caught:
        allocator.allocate(11 * MIB)
    assert (caught.value.requested, caught.value.reserved) == (11 * MIB, 30 * MIB)


def test_a_segment_that_is_partly_used_is_not_given_back() -> None:
    allocator = CachingAllocator(capacity=20 * MIB)
    first, second = allocator.allocate(5 * MIB), allocator.allocate(5 * MIB)
    allocator.free(first)
    with pytest.raises(OutOfMemory):
        allocator.allocate(12 * MIB)  # 15 MiB are free, in pieces of 5 and 10 of one segment
    allocator.free(second)
    assert allocator.allocate(12 * MIB).size == 12 * MIB


def test_expandable_segments_grow_instead_of_breaking_up() -> None:
    allocator = CachingAllocator(expandable=True)
    first = allocator.allocate(15 * MIB)
    assert allocator.reserved == 20 * MIB  # one page of 20 MiB
    second = allocator.allocate(15 * MIB)  # 5 free at the end, one page more
    assert (allocator.reserved, len(allocator.segments)) == (40 * MIB, 1)
    allocator.free(first)
    allocator.free(second)
    assert allocator.allocate(38 * MIB).address == first.address  # all of it is one block again
    assert allocator.reserved == 40 * MIB


def test_peaks_begin_anew() -> None:
    allocator = CachingAllocator()
    allocator.free(allocator.allocate(12 * MIB))
    allocator.reset_peaks()
    assert (allocator.peak_allocated, allocator.peak_reserved) == (0, 12 * MIB)


def test_pages_that_are_free_between_others_go_back_and_are_used_again() -> None:
    """Source: ``unmap_block``, ``find_expandable_block`` and ``map_block`` of the caching allocator."""
    allocator = CachingAllocator(200 * MIB, expandable=True)
    held = [allocator.allocate(60 * MIB) for _ in range(3)]
    allocator.free(held[1])
    allocator.empty_cache()
    assert allocator.reserved == 120 * MIB
    again = allocator.allocate(50 * MIB)  # three pages: in the gap, not at the end
    assert (again.address, allocator.reserved) == (held[1].address, 180 * MIB)


def test_what_is_free_between_others_makes_room_for_what_is_larger() -> None:
    allocator = CachingAllocator(200 * MIB, expandable=True)
    held = [allocator.allocate(60 * MIB) for _ in range(3)]
    allocator.free(held[1])
    last = allocator.allocate(80 * MIB)  # 20 are left, and 60 free where it does not fit
    assert last.address == held[2].address + held[2].size
    assert (allocator.retries, allocator.reserved) == (1, 200 * MIB)


def test_only_whole_pages_go_back() -> None:
    allocator = CachingAllocator(expandable=True)
    first, second, third = (allocator.allocate(size * MIB) for size in (30, 30, 20))
    allocator.free(second)  # from 30 to 60 MiB: one page lies in it, from 40 on
    allocator.empty_cache()
    assert allocator.reserved == 60 * MIB
    assert allocator.allocate(8 * MIB).address == first.address + first.size
    assert third.size == 20 * MIB


def test_a_block_that_can_grow_is_taken_last() -> None:
    """Source: ``get_free_block``, which looks for the block with the least room to grow."""
    allocator = CachingAllocator(expandable=True)
    held = [allocator.allocate(size * MIB) for size in (15, 5, 15)]
    allocator.free(held[0])  # 15 MiB here, 5 at the end
    assert allocator.allocate(4 * MIB).address == held[0].address
