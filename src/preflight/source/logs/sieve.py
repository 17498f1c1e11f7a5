"""Passes over the parts of a buffer in which none of many literals can stand, so that an automaton has little left to read.

An automaton takes one step for each byte, and each step waits for the one before it.
Here four bytes are looked up at once, at every fourth place, and no look-up waits for another.
Wherever a literal stands, one of the four-byte words at these places lies within it, and which one depends on nothing but the
remainder of its place by four: for each remainder the word of the literal is taken that a sample of the text has least of, with
the word behind it where the literal is long enough.
What bears such words, and the bytes beside them that belong to it, is kept with its surroundings; everything else is passed over.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

SHORTEST = 3
"""Of a shorter literal too little is known of any word at these places."""
_STRIDE = 4
_BITS = 20
_FACTORS = tuple(0x9E3779B1 * odd & 0xFFFFFFFF for odd in (1, 3, 5, 7))
"""The golden ratio times 2^32, and multiples of it: words that differ little are spread over the table."""
_CHUNK = 1 << 18
"""Bytes that are looked at together, so that what is made of them stays in the cache."""
_PIECE = 32
"""Bytes that are kept or passed over together."""
_FARTHEST = 24
"""Words that begin later than this in their literal are not used, so that little before them has to be kept."""
_SECOND, _ALONE, _FIRSTS, _HEAPS = 0b10, 0b1000000, 0b010101, 3
"""Bits of what is known of a word: in each of three heaps, that it is a first or a second one; that it is enough alone."""
_MIXED = 0.1
"""Share of the words behind a first word that may be the second word of another literal."""
_ASIDE = (1, 2, 0)
"""The words that are held against the literal, in this order: the one that was found, that behind it, that before it."""


class Kept(NamedTuple):
    """What is left of a buffer.

    Attributes:
        data: The parts that are left, one behind the other.
        pieces: The number of the piece of the buffer that each of its pieces is.
    """

    data: bytes
    pieces: list[int]

    def placed(self, found: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        """Return what was found in it as it stands in the buffer, without what stands where parts come together."""
        pieces = self.pieces
        placed = []
        for number, begin, end in found:
            first, last = begin // _PIECE, (end - 1) // _PIECE
            piece = pieces[first]
            if first == last or pieces[last] - piece == last - first:
                by = (piece - first) * _PIECE
                placed.append((number, begin + by, end + by))
        return placed


class _Rows(NamedTuple):
    """Words that tell of literals, a row for each; of the rows of a group one is needed.

    Attributes:
        group: The literal and the remainder of its place.
        words: The word before it, the word itself, and the one behind it, as far as they are the literal's.
        masks: Which of their bits are.
        before: Bytes before the word that have to be kept.
        behind: Bytes from the word on that have to be kept.
    """

    group: Any
    words: Any
    masks: Any
    before: Any
    behind: Any


class _Table(NamedTuple):
    """What is looked up: what is known of a word, and its number; and by the number what has to stand around it."""

    factor: int
    known: Any
    number: Any
    around: list[tuple[Any, Any]]
    before: Any
    behind: Any


class _Room:
    """Arrays that are filled again for each part of a buffer."""

    def __init__(self, np: Any) -> None:
        step = _CHUNK // _STRIDE
        self.mixed, self.slots = np.empty(step + 1, np.uint32), np.empty(step + 1, np.int64)
        self.known, self.good, self.some = np.empty(step + 1, np.uint8), np.empty(step, np.uint8), np.empty(step, bool)


class Sieve:
    """The words of a set of literals, chosen for a kind of text."""

    def __init__(self, literals: Sequence[bytes], find: Callable[[bytes], Iterable[tuple[int, int, int]]]) -> None:
        """Take the literals, none of which is shorter than ``SHORTEST``, and what finds them in a buffer."""
        import numpy as np

        self._np = np
        self._ends = max(map(len, literals)) // _PIECE + 2
        self._ways = _ways(np, _least(literals, find))
        self._tables: list[_Table] = []
        self._room = _Room(np)

    def fit(self, sample: bytes) -> None:
        """Choose the words of which a sample of the text has least."""
        words = self._np.frombuffer(sample, "<u4", len(sample) // _STRIDE)
        self._tables = [_table(self._np, rows, words, paired) for rows, paired in zip(self._ways, (1, 0), strict=True)]

    def keep(self, buffer: bytes) -> Kept:
        """Return what is left of a buffer; ``fit`` comes before it."""
        np = self._np
        count = len(buffer) // _PIECE
        marks = np.zeros(count + 1, bool)
        # Both ends are kept in any case: it does not matter what is seen beside the first word and the last one.
        marks[: self._ends] = marks[max(count - self._ends, 0) :] = True
        for table, offset in zip(self._tables, (0, _STRIDE // 2), strict=True):
            if len(table.before):
                _mark(np, marks, table, buffer, offset, self._room)
        pieces = np.flatnonzero(marks)
        data = np.frombuffer(buffer, np.uint8, count * _PIECE).reshape(-1, _PIECE)[pieces[:-1]]
        return Kept(data.tobytes() + buffer[count * _PIECE :], pieces.tolist())


def _least(
    literals: Sequence[bytes], find: Callable[[bytes], Iterable[tuple[int, int, int]]]
) -> list[tuple[bytes, int, int]]:
    """Return the literals that hold no other one; each with the most bytes that those that hold it have before and from it on."""
    ends = list(accumulate(len(literal) + 1 for literal in literals))
    before = [0] * len(literals)
    behind = [len(literal) for literal in literals]
    least = [True] * len(literals)
    for number, begin, end in find(b"\n".join(literals)):
        holder = bisect_right(ends, begin)
        start = ends[holder] - len(literals[holder]) - 1
        if number == holder or end >= ends[holder]:
            continue
        least[holder] = False
        before[number] = max(before[number], begin - start)
        behind[number] = max(behind[number], start + len(literals[holder]) - begin)
    return [(literal, before[at], behind[at]) for at, literal in enumerate(literals) if least[at]]


def _ways(np: Any, least: Sequence[tuple[bytes, int, int]]) -> tuple[_Rows, _Rows]:
    """Return the words at every fourth place, and those that are looked for at the places between.

    The latter are of literals of a few bytes, of which no whole word is at the former for some remainder of their place.
    """
    width = max(_FARTHEST, *(len(literal) for literal, _, _ in least)) + 4 * _STRIDE
    text = np.zeros((len(least), width), np.uint8)
    for number, (literal, _, _) in enumerate(least):
        text[number, _STRIDE + 1 : _STRIDE + 1 + len(literal)] = memoryview(literal)
    lengths = np.array([[len(literal)] for literal, _, _ in least])
    own = (np.arange(width) - _STRIDE - 1 >= 0) & (np.arange(width) - _STRIDE - 1 < lengths)
    reach = np.array([(before, behind) for _, before, behind in least])
    found = []
    for offset in range(-1, _FARTHEST + 1):
        part = slice(offset + 1, offset + 1 + 3 * _STRIDE)
        words = np.ascontiguousarray(text[:, part]).view("<u4")
        masks = (own[:, part] * np.uint8(255)).view("<u4")
        known = own[:, part][:, _STRIDE : 2 * _STRIDE].sum(axis=1)
        for odd in (0, 1):
            place = np.arange(len(least)) * _STRIDE + (offset - odd * _STRIDE // 2) % _STRIDE
            # Four bytes at every fourth place are best, then four at the places between, then three.
            rank = (_STRIDE - known) * 2 + odd
            use = known >= _STRIDE - 1
            before, behind = np.maximum(reach[:, 0] + offset, 0), reach[:, 1] - offset
            found.append([column[use] for column in (place, rank, words, masks, before, behind)])
    place, rank, *rest = (np.concatenate(columns) for columns in zip(*found, strict=True))
    best = np.full(len(least) * _STRIDE, 9)
    np.minimum.at(best, place, rank)
    even, odd = ((rank == best[place]) & (rank % 2 == way) for way in (0, 1))
    return _Rows(place[even], *(column[even] for column in rest)), _Rows(place[odd], *(column[odd] for column in rest))


def _slots(np: Any, words: Any, factor: int) -> Any:
    """Return the slots of words in the tables."""
    return np.right_shift(np.multiply(words, np.uint32(factor)), np.uint32(32 - _BITS)).astype(np.int64)


def _seen(np: Any, sample: Any, factor: int) -> Any:
    """Return how many words of a sample are in each slot."""
    return np.bincount(_slots(np, sample, factor), minlength=1 << _BITS)


def _opened(np: Any, words: Any, masks: Any) -> tuple[Any, Any]:
    """Return all words that there are with the bits that are known, and the number of the one that each is of."""
    whole = masks == 0xFFFFFFFF
    shift = np.where(masks & 0xFF, 24, 0).astype(np.uint32)[~whole]
    others = words[~whole][:, None] + (np.arange(256, dtype=np.uint32) << shift[:, None])
    numbers = np.arange(len(words))
    return np.concatenate((words[whole], others.ravel())), np.concatenate(
        (numbers[whole], np.repeat(numbers[~whole], 256))
    )


def _table(np: Any, rows: _Rows, sample: Any, paired: int) -> _Table:
    """Return the table of the rows of whose words the sample has least, one of each group."""
    words, owner = _opened(np, rows.words[:, 1], rows.masks[:, 1])
    pairs = np.flatnonzero(paired * (rows.masks[:, 2] & 0xFFFFFF) == 0xFFFFFF)
    seconds, second_owner = _opened(np, rows.words[pairs, 2], rows.masks[pairs, 2])
    second_owner = pairs[second_owner]
    # The words that are open come upon frequent ones with one factor, and beside them with another.
    forced = words[rows.masks[owner, 1] != 0xFFFFFFFF]
    factor = min(_FACTORS, key=lambda one: int(_seen(np, sample, one)[_slots(np, forced, one)].sum()))
    seen = _seen(np, sample, factor)
    slots, second_slots = _slots(np, words, factor), _slots(np, seconds, factor)
    cost = np.bincount(owner, seen[slots], len(rows.group))
    # The second word of another literal may follow, too: a frequent first word costs even where its own second one is rare.
    beside = np.bincount(second_owner, seen[second_slots], len(rows.group))
    cost[pairs] = (cost * (_MIXED + beside / max(len(sample), 1)) + _MIXED * beside)[pairs]
    order = np.lexsort((cost, rows.group))
    chosen = np.zeros(len(order), bool)
    chosen[order[np.flatnonzero(np.diff(rows.group[order], prepend=-1))]] = True
    slots, owner = slots[chosen[owner]], owner[chosen[owner]]
    second_slots, second_owner = second_slots[chosen[second_owner]], second_owner[chosen[second_owner]]
    heap = (2 * (rows.group // _STRIDE % _HEAPS)).astype(np.uint8)
    bits = np.full(len(order), _ALONE, np.uint8)
    bits[pairs] = np.uint8(1) << heap[pairs]
    known = np.zeros(1 << _BITS, np.uint8)
    np.bitwise_or.at(known, slots, bits[owner])
    np.bitwise_or.at(known, second_slots, (np.uint8(_SECOND) << heap)[second_owner])
    used, at = np.unique(slots, return_inverse=True)
    number = np.zeros(1 << _BITS, np.int32)
    number[used] = np.arange(len(used))
    farthest = np.zeros((2, len(used)), np.int64)
    np.maximum.at(farthest[0], at, rows.before[owner])
    np.maximum.at(farthest[1], at, rows.behind[owner])
    around = [_common(np, rows.words[owner, one], rows.masks[owner, one], at, len(used)) for one in _ASIDE]
    return _Table(factor, known, number, around, *farthest)


def _common(np: Any, words: Any, masks: Any, at: Any, count: int) -> tuple[Any, Any]:
    """Return which bits of the words in a slot are known of each of them, and are the same, and what they are."""
    mask = np.full(count, 0xFFFFFFFF, np.uint32)
    always, ever = mask.copy(), np.zeros(count, np.uint32)
    np.bitwise_and.at(mask, at, masks)
    np.bitwise_and.at(always, at, words)
    np.bitwise_or.at(ever, at, words)
    mask &= always | ~ever
    return mask, always & mask


def _candidates(np: Any, words: Any, table: _Table, paired: bool, room: _Room) -> Any:
    """Return the numbers of the words of a buffer that may be of a literal."""
    step = _CHUNK // _STRIDE
    found = []
    for start in range(0, len(words) - 1, step):
        part = words[start : start + step + 1]
        size = len(part)
        mixed, slots, known = room.mixed[:size], room.slots[:size], room.known[:size]
        np.multiply(part, np.uint32(table.factor), out=mixed)
        np.right_shift(mixed, np.uint32(32 - _BITS), out=slots, casting="unsafe")
        table.known.take(slots, out=known, mode="wrap")
        good, some = known[: size - 1], room.some[: size - 1]
        if paired:
            good = np.right_shift(known[1:], 1, out=room.good[: size - 1])
            good &= _FIRSTS
            good |= _ALONE
            good &= known[:-1]
        found.append(np.flatnonzero(np.not_equal(good, 0, out=some)) + start)
    return np.concatenate(found)


def _mark(np: Any, marks: Any, table: _Table, buffer: bytes, offset: int, room: _Room) -> None:
    """Mark the pieces of a buffer in which a literal may stand, by the words at every fourth place from an offset on."""
    words = np.frombuffer(buffer, "<u4", (len(buffer) - offset) // _STRIDE, offset)
    at = _candidates(np, words, table, not offset, room)
    number = table.number.take(_slots(np, words[at], table.factor))
    for aside, (mask, value) in zip(_ASIDE, table.around, strict=True):
        beside = words[at + (aside - 1)]  # not ``take``, which copies all of a buffer between whose words these are
        good = np.flatnonzero((beside & mask.take(number)) == value.take(number))
        at, number = at.take(good), number.take(good)
    places = at * _STRIDE + offset
    first = np.maximum(places - table.before.take(number), 0) // _PIECE
    last = np.minimum((places + table.behind.take(number)) // _PIECE, len(marks) - 1)
    while len(first):
        marks[first] = True
        going = first < last
        first, last = first[going] + 1, last[going]
