"""The place of a process on its node by the device that NCCL names before its lines, ``host:pid:tid [device]``."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from preflight.vocabulary.log import Hit, Who

_DEVICE = re.compile(r"(?:^|\s)[A-Za-z0-9][\w.-]*:(\d+):\d+ \[(\d+)\] ")
_RANKS = re.compile(r"(?i)\branks?[ :=]{1,2}\d")


def by_device(hits: Iterable[Hit]) -> dict[tuple[str | None, int], Who]:
    """Return the place of each process of which NCCL names the device, by its node and its number.

    Programs take the device of their place; only a process that sees no other one has device 0 wherever it is. So the device is
    the place on a node of which any process has another device than 0, each process one, and no two the same. Where lines speak
    of ranks, there may be more of them than a node has places.
    """
    hits = tuple(hits)
    if any(_RANKS.search(hit.text) for hit in hits):
        return {}
    devices: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for hit in hits:
        told = _DEVICE.search(hit.text) if hit.who.node is not None else None
        if told and hit.who.node is not None and int(told[1]) == hit.who.pid:
            devices[hit.who.node][int(told[1])].add(int(told[2]))
    found: dict[tuple[str | None, int], Who] = {}
    for node, processes in devices.items():
        every = [device for seen in processes.values() for device in seen]
        if any(every) and len(every) == len(processes) == len(set(every)):
            found.update({(node, pid): Who(None, node, min(seen)) for pid, seen in processes.items()})
    return found
