"""Who holds which bytes on the virtual GPU, from the first allocation to the last."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from preflight.dryrun.virtual.memory.allocator import Block, CachingAllocator, OutOfMemory
from preflight.dryrun.virtual.memory.compiled import Compiled
from preflight.dryrun.virtual.memory.course import Course
from preflight.dryrun.virtual.memory.history import History

PARAMETER, GRADIENT, STATE, BUFFER = "parameter", "gradient", "optimizer state", "buffer"
ACTIVATION, TEMPORARY, BATCH, COMMUNICATION = "activation", "temporary", "input", "communication"


@dataclass(eq=False, slots=True)
class Holding:
    """One storage on the GPU.

    Attributes:
        size: Bytes asked for.
        phase: The phase in which it was made.
        step: Optimizer steps done before.
        module: Path of the module that was running.
        line: ``file:line`` of the script.
        operator: The operator that made it.
        category: What it is for, as far as it is known; settled by ``classify``.
        held: Bytes of its block, which may be more than was asked for.
        block: Its block, or None where the simulated device was full.
    """

    number: int
    size: int
    phase: str
    step: int
    module: str
    line: str
    operator: str
    category: str = ""
    held: int = 0
    block: Block | None = None


@dataclass(slots=True)
class Peak:
    """The highest point of a phase of a step."""

    allocated: int = 0
    reserved: int = 0


@dataclass(frozen=True)
class Full:
    """The first request for which the GPU had no room."""

    phase: str
    step: int
    module: str
    line: str
    operator: str
    requested: int
    allocated: int
    reserved: int


@dataclass(slots=True)
class Ledger:
    """The allocations of one virtual GPU.

    Args:
        allocator: The simulated allocator with the GPU's capacity.
        where: Tells phase, step, module and line at the moment of an allocation.
        history: Takes every event, for a snapshot.
    """

    allocator: CachingAllocator
    where: Callable[[], tuple[str, int, str, str]]
    live: dict[int, Holding] = field(default_factory=dict)
    peaks: dict[tuple[int, str], Peak] = field(default_factory=dict)
    events: list[tuple[str, int, int]] = field(default_factory=list)
    full: Full | None = None
    peak: int = 0
    peak_at: tuple[str, int] = ("init", 0)
    at_peak: list[Holding] = field(default_factory=list)
    made: int = 0
    asked: int = 0
    unplaced: int = 0
    history: History | None = None
    course: Course = field(default_factory=Course)
    compiled: Compiled = field(default_factory=Compiled)
    _references: dict[int, Any] = field(default_factory=dict)
    _stale: bool = False

    def see(self, storage: Any, size: int, operator: str, made_of: list[int] | None = None) -> Holding | None:
        """Record a storage when it is seen for the first time; it is freed when Python drops it.

        Args:
            storage: The storage.
            size: Its bytes.
            operator: What made it.
            made_of: Keys of the storages that it was made of, where a compiler would not write it.
        """
        key = storage._cdata
        if key in self._references or size == 0:
            return None
        phase, step, module, line = self.where()
        holding = Holding(self.made, size, phase, step, module, line, operator)
        self.made += 1
        self.asked += size
        try:
            holding.block = self.allocator.allocate(size)
            holding.held = holding.block.size
            if self.history is not None:
                self.history.note("alloc", holding.block.address, size, holding)
        except OutOfMemory as error:
            # The run goes on as if there were room, so that the whole peak becomes known.
            holding.held = size
            self.unplaced += size
            if self.history is not None:
                self.history.note("oom", max(0, (self.allocator.capacity or 0) - error.reserved), size, holding)
            if self.full is None:
                self.full = Full(phase, step, module, line, operator, size, error.allocated, error.reserved)
        self.live[key] = holding
        self._references[key] = weakref.ref(storage, lambda _: self._drop(key))
        self.events.append(("alloc", holding.number, size))
        if made_of is not None:
            self.compiled.spare(key, holding.held, made_of)
        self.course.taken(holding.held, self.allocator.reserved + self.unplaced, phase, step)
        self._mark(phase, step)
        return holding

    def resize(self, storage: Any, size: int) -> None:
        """Follow a storage that grows or shrinks in place, as those of sharded parameters do around their use."""
        known = self.live.get(storage._cdata)
        category, module = (known.category, known.module) if known is not None else ("", "")
        if known is not None and known.size == size:
            return
        self._drop(storage._cdata)
        made = self.see(storage, size, "resize_")
        if made is not None:
            # What is taken anew in place are gathered weights.
            made.category, made.module = category or COMMUNICATION, module or made.module

    def address(self, storage: Any) -> int | None:
        """Return where a storage lies; 0 for an empty one, None for one that is not on the GPU."""
        holding = self.live.get(storage._cdata)
        if holding is None:
            return None
        return holding.block.address if holding.block is not None else (1 << 52) + holding.number * 512

    @property
    def allocated(self) -> int:
        """Bytes in blocks now, those without room included."""
        return self.allocator.allocated + self.unplaced

    def _drop(self, key: int) -> None:
        if self._stale and key in self.live:
            self._keep_peak()  # with the one that goes now
        holding = self.live.pop(key, None)
        self._references.pop(key, None)
        if holding is None:
            return
        if holding.block is not None:
            if self.history is not None:
                self.history.freed(holding)
            self.allocator.free(holding.block)
        else:
            self.unplaced -= holding.size
        self.compiled.free(key, holding.held)
        self.events.append(("free", holding.number, holding.size))
        self.course.gone(holding.number, purpose(holding))

    def _mark(self, phase: str, step: int) -> None:
        now = self.allocated
        peak = self.peaks.setdefault((step, phase), Peak())
        peak.allocated = max(peak.allocated, now)
        peak.reserved = max(peak.reserved, self.allocator.reserved + self.unplaced)
        self.compiled.mark(now)
        if now > self.peak:
            # Who holds it is only written down when the first of them goes: a rising ramp costs nothing.
            self.peak, self.peak_at, self._stale = now, (phase, step), True

    def _keep_peak(self) -> None:
        self.at_peak, self._stale = list(self.live.values()), False

    def finish(self) -> None:
        """Write down who held the peak when nothing was freed after it."""
        if self._stale:
            self._keep_peak()

    def classify(self, storage: Any, category: str, name: str | None = None) -> None:
        """Say what a storage is for; the first word stands."""
        holding = self.live.get(storage._cdata)
        if holding is not None and not holding.category:
            holding.category = category
            if name:
                holding.module = name


def purpose(holding: Holding) -> str:
    """Return what a storage is for, by when it was made where nothing else tells."""
    if holding.category:
        return holding.category
    if holding.phase in ("forward", "eval"):
        return ACTIVATION
    return BATCH if holding.phase == "init" else TEMPORARY
