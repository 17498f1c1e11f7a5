"""The host's processor: what a Python loop and copying memory take, and how much of its time others take away."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from typing import Any

from preflight.investigate.probes.timed import Row, row, samples_of

TITLE = "the host's processor: Python, hashing, copying, time taken away by others"
TOGETHER = False


def operations(settings: dict[str, Any]) -> list[str]:
    """Return what is measured."""
    return ["python", "hash", "copy"]


def measure(operation: str, settings: dict[str, Any]) -> list[Row]:
    """Measure one of them."""
    slow = float(settings.get("slow", 1.0))
    before = _times()
    waited = time.perf_counter(), time.process_time()
    content = bytes(1 << 20)
    kinds: dict[str, Callable[[], Any]] = {
        "python": lambda: sum(range(100_000)),
        "hash": lambda: hashlib.sha256(content).digest(),
        "copy": lambda: bytearray(content * 8),
    }
    work = kinds[operation]

    def once() -> None:
        began = time.perf_counter()
        work()
        if slow > 1.0:
            time.sleep((time.perf_counter() - began) * (slow - 1.0))

    taken = samples_of(once, settings)
    share = (time.process_time() - waited[1]) / max(time.perf_counter() - waited[0], 1e-9)
    details = {"own_share": round(share, 3), **_stolen(before, _times())}
    if operation == "copy":
        return [row("copy", "byte/s", "larger", [(8 << 20) * 2 / one for one in taken], **details)]
    return [row(operation, "s", "smaller", taken, **details)]


def _times() -> list[int]:
    try:
        with open("/proc/stat", encoding="ascii") as file:
            return [int(word) for word in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return []


def _stolen(before: list[int], after: list[int]) -> dict[str, float]:
    """Return the share of all processors' time that the hypervisor gave to others, and the load."""
    found = {"load": round(os.getloadavg()[0], 2)} if hasattr(os, "getloadavg") else {}
    spent = [now - then for now, then in zip(after, before, strict=False)]
    if len(spent) == 8 and sum(spent) > 0:
        found["stolen_share"] = round(spent[7] / sum(spent), 4)
    return found
