"""What of a checksum depends on the sizes of the tensors alone, remembered from one time to the next."""

from __future__ import annotations

from typing import Any

from .checksum_grid import grid_of
from .checksum_mixing import mix, signed

PLANS = 16
"""Layouts remembered; a program has a few, one per list of tensors that it is asked for."""


class Plan:
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


_plans: dict[Any, Plan] = {}


def plan_for(torch: Any, device: Any, sizes: list[int], kinds: list[Any]) -> Plan:
    """Return the plan for tensors of these kinds and sizes, remembered or made."""
    key = (device, *sizes, *kinds)
    plan = _plans.get(key)
    if plan is None:
        if len(_plans) >= PLANS:
            _plans.clear()
        plan = _plans[key] = plan_of(torch, device, sizes, kinds)
    return plan


def plan_of(torch: Any, device: Any, sizes: list[int], kinds: list[Any]) -> Plan:
    """Lay out the segments: words by kind, then rows, then columns, each in the order of the tensors."""
    grids = [grid_of(size) for size in sizes]
    by_kind = [index for kind in dict.fromkeys(kinds) for index, own in enumerate(kinds) if own == kind]
    segments = [(index, 0, 0, grids[index][2]) for index in by_kind]
    segments += [(index, 1, 8192, rows) for index, (rows, _, _) in enumerate(grids)]
    segments += [(index, 2, 4096, columns) for index, (_, columns, _) in enumerate(grids)]
    # Before everything stands one number that belongs to nobody, so that each segment has an end before its beginning.
    positions, end = [torch.zeros(1, dtype=torch.int64, device=device)], 0
    plan, count = Plan(), len(sizes)
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
    plan.keys = mix(torch, keys, 0x3243F6A8885A308D).bitwise_or_(1)
    plan.ends = torch.tensor(ends + begins, dtype=torch.int64, device=device)
    plan.lengths = torch.tensor([signed(size * 0x9E3779B97F4A7C15) for size in sizes], device=device)
    return plan
