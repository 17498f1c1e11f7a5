"""Memory that this process holds: what CUDA's allocator counts anyway, and the pages of the process itself.

Nothing here waits for a device, resets a counter of the program's or makes CUDA begin: the numbers are read from the
allocator's own books, at the end of an iteration, and at most a few times a second.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

from .recorder import Recorder

EVERY = 0.5
"""Seconds between two readings."""
HOST = "host"
"""What the memory of the process itself is called; a device is called as torch calls it: ``cuda:0``."""
_PAGES = "/proc/self/statm"
clock = time.monotonic


class Memory:
    """Reads memory at the end of iterations, and once more when the program ends."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._next = 0.0
        self._capacities: dict[int, int | None] = {}

    def boundary(self) -> None:
        """An iteration has ended."""
        now = clock()
        if now >= self._next:
            self._next = now + EVERY
            self._read()

    def end(self) -> None:
        """The program ends: the last word on the peaks.

        Not where another thread ends it, by ``os._exit``: a watchdog does so when the main one hangs, perhaps within the
        allocator, whose books nobody else can read then.
        """
        alone = threading.current_thread() is threading.main_thread()
        if alone and (self.recorder.iteration or self.recorder.trained):
            self._read()

    def _read(self) -> None:
        recorder = self.recorder
        if recorder.role != "trainer" or recorder.gave_up("memory"):
            return
        with recorder.work("memory"):
            for device, allocated, reserved, peak, most, capacity in self._devices():
                self._put(device, allocated, reserved, peak, most, capacity, None)
            resident = resident_bytes()
            if resident is not None:
                self._put(HOST, None, None, None, None, None, resident)

    def _put(self, device: str, *values: int | None) -> None:
        recorder = self.recorder
        head = (*recorder.head(), device)
        recorder.put("memory", (*head, *values))

    def _devices(self) -> list[tuple[str, int, int, int, int, int | None]]:
        """What the allocator holds on each device that it was ever asked for."""
        cuda: Any = getattr(self.recorder.torch, "cuda", None)
        if cuda is None or not cuda.is_initialized():
            return []
        found = []
        for index in range(cuda.device_count()):
            # One look at the books; each of torch's functions for a single number would take one of its own.
            books = cuda.memory_stats_as_nested_dict(index)
            blocks, segments = (books.get(name, {}).get("all") for name in ("allocated_bytes", "reserved_bytes"))
            if not blocks or not segments or not segments["peak"]:
                continue
            now, held = int(blocks["current"]), int(segments["current"])
            peak, most = int(blocks["peak"]), int(segments["peak"])
            found.append((f"cuda:{index}", now, held, peak, most, self._capacity(cuda, index)))
        return found

    def _capacity(self, cuda: Any, index: int) -> int | None:
        if index not in self._capacities:
            self._capacities[index] = int(cuda.get_device_properties(index).total_memory)
        return self._capacities[index]


def resident_bytes() -> int | None:
    """Return the bytes of this process that are in the machine's memory; None where the system does not say so cheaply."""
    if not sys.platform.startswith("linux"):
        return None
    descriptor = os.open(_PAGES, os.O_RDONLY | os.O_CLOEXEC)  # a stream would cost three times as much
    try:
        return int(os.read(descriptor, 256).split()[1]) * os.sysconf("SC_PAGE_SIZE")
    finally:
        os.close(descriptor)
