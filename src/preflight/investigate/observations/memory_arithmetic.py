"""The numbers of an out-of-memory message: who holds the card, and whether the request would have fitted.

Forms of the message, from torch 1.x on::

    Tried to allocate 64.00 MiB (GPU 0; 10.76 GiB total capacity; 9.61 GiB already allocated; 25.44 MiB free; 9.76 GiB reserved
    Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.15 GiB of which 1.21 GiB is free. Process 2211 has 40.10 GiB
    memory in use. Including non-PyTorch memory, this process has 77.93 GiB memory in use. Of the allocated memory 74.10 GiB is
    allocated by PyTorch, and 2.52 GiB is reserved by PyTorch but unallocated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from preflight.investigate.culprit.vote import Scene
from preflight.investigate.observations.observation import Observation
from preflight.vocabulary.quantity import format_bytes

_SIZE = r"(?P<number>[\d.]+) ?(?P<unit>[KMGT]?i?B|bytes)"
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_PARTS = {
    "wanted": re.compile(rf"Tried to allocate {_SIZE}"),
    "capacity": re.compile(
        rf"total capacity of {_SIZE}|{_SIZE.replace('number', 'n2').replace('unit', 'u2')} total capacity"
    ),
    "free": re.compile(rf"{_SIZE}(?: is)? free"),
    "held": re.compile(rf"this process has {_SIZE} memory in use"),
    "allocated": re.compile(rf"{_SIZE} (?:is allocated by PyTorch|already allocated)"),
    "reserved": re.compile(rf"{_SIZE} reserved in total"),
    "unused": re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated"),
}
_OTHERS = re.compile(rf"Process (?P<pid>\d+) has {_SIZE} memory in use")
# A CUDA context and its libraries take a few hundred MB in each process; what is less than that is nobody's share.
CONTEXT = 1 << 30


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """What the message says, in bytes; None where it does not."""

    wanted: float
    capacity: float | None = None
    free: float | None = None
    held: float | None = None
    allocated: float | None = None
    reserved: float | None = None
    unused: float | None = None
    others: float | None = None
    pids: tuple[int, ...] = ()


def numbers_of(text: str) -> Numbers | None:
    """Return the numbers of a message of torch's allocator; None where it is not one."""
    read = {name: _size(pattern.search(text)) for name, pattern in _PARTS.items()}
    wanted = read.pop("wanted")
    if wanted is None:
        return None
    if read["unused"] is None and read["reserved"] is not None and read["allocated"] is not None:
        read["unused"] = max(read["reserved"] - read["allocated"], 0.0)
    named = list(_OTHERS.finditer(text))
    others = sum(size for size in map(_size, named) if size is not None) if named else None
    own = read["held"] if read["held"] is not None else read["reserved"]
    if others is None and None not in (read["capacity"], read["free"], own):
        rest = (read["capacity"] or 0.0) - (read["free"] or 0.0) - (own or 0.0)
        others = rest if rest > CONTEXT else 0.0
    return Numbers(wanted=wanted, others=others, pids=tuple(int(one["pid"]) for one in named), **read)


def _size(found: re.Match[str] | None) -> float | None:
    if found is None:
        return None
    groups = found.groupdict()
    number, unit = (groups["number"], groups["unit"]) if groups["number"] else (groups.get("n2"), groups.get("u2"))
    try:
        factor = _UNITS["" if unit == "bytes" else (unit or "").rstrip("B").rstrip("i")]
        return float(number or "") * factor
    except (ValueError, KeyError):
        return None


def observe(scene: Scene) -> Iterator[Observation]:
    """Do the arithmetic of the first message that has numbers."""
    for event in scene.failing:
        numbers = numbers_of(event.hit.text) if "ried to allocate" in event.hit.text else None
        if numbers is not None:
            found = _told(numbers)
            if found is not None:
                text, odds = found
                yield Observation(text=text, odds=odds, quotes=(scene.case.quote(event.hit),))
            return


def _told(numbers: Numbers) -> tuple[str, dict[str, float]] | None:
    """Return what the numbers say, and of which causes."""
    wanted, free, capacity = numbers.wanted, numbers.free or 0.0, numbers.capacity
    short = wanted - free
    if capacity is not None and wanted > capacity:
        text = f"{format_bytes(wanted)} were asked for at once, and the card has {format_bytes(capacity)}"
        return text, {"peak-exceeds-device": 3.0, "fragmentation": -4.0, "other-process-on-device": -3.0, "memory-grows": -2.0,
                      "ranks-share-device": -3.0, "leftover-process": -3.0}  # fmt: skip
    if numbers.others is not None and numbers.others > CONTEXT and numbers.others >= short:
        who = f"process {numbers.pids[0]} holds" if len(numbers.pids) == 1 else "other processes hold"
        text = f"{who} {format_bytes(numbers.others)} of the card: without that the {format_bytes(wanted)} asked for would fit into {format_bytes(free + numbers.others)}"
        return text, {"other-process-on-device": 3.0, "ranks-share-device": 3.0, "leftover-process": 3.0,
                      "peak-exceeds-device": -2.5, "fragmentation": -2.5, "memory-grows": -2.5}  # fmt: skip
    none_else = {"other-process-on-device": -2.5, "ranks-share-device": -2.5, "leftover-process": -2.5}
    known = numbers.others is not None
    if numbers.unused is not None and numbers.unused >= max(short, 0.1 * (capacity or 0.0)):
        text = f"{format_bytes(numbers.unused)} are reserved and not in use, and {format_bytes(wanted)} were asked for with {format_bytes(free)} free: the pieces are too small"
        return text, {"fragmentation": 3.0, "peak-exceeds-device": -1.0, **(none_else if known else {})}
    if numbers.allocated is not None and capacity is not None and numbers.allocated + wanted > 0.8 * capacity:
        text = f"{format_bytes(numbers.allocated)} are in use and {format_bytes(wanted)} more were asked for, of {format_bytes(capacity)}"
        return text, {
            "peak-exceeds-device": 0.7,
            "memory-grows": 0.7,
            "fragmentation": -2.0,
            **(none_else if known else {}),
        }
    return None
