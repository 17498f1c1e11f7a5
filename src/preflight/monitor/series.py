"""Numbers of a run over its steps, thinned as they grow: for the curves of a report."""

from __future__ import annotations

import math

from preflight.monitor.thinning import thinned
from preflight.monitor.views.resting import Resting
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import Memory, Run, Window
from preflight.vocabulary.watched import HeldMemory, Mark, Series

MOST_POINTS = 400
MOST_SERIES = 128
MOST_RANKS = 8
"""Ranks whose own curves are kept."""
MOST_COLUMNS = 200
"""Steps, or spans of steps, in which broken examples are counted."""

_NAMES = {"loss": "loss", "lr": "learning rate", "grad_norm": "gradient norm", "scale": "loss scale"}
_MEMORY = {
    "memory allocated": "allocated",
    "memory reserved": "reserved",
    "memory peak": "peak",
    "memory resident": "resident",
}
_UNITS = {"step time": "s", **dict.fromkeys(_MEMORY, "B")}


class Curve:
    """One number over the steps; of a long run what stands out and a point now and then."""

    def __init__(self) -> None:
        self._steps: list[int] = []
        self._values: list[float | None] = []
        self._numbers: list[int] = []  # how many points came before each
        self._width = 1
        self._seen = 0

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, step: int, value: float | None) -> None:
        """Take a value."""
        self._steps.append(step)
        self._values.append(value if value is not None and math.isfinite(value) else None)
        self._numbers.append(self._seen)
        self._seen += 1
        if len(self._steps) > 2 * MOST_POINTS:
            kept = self._kept()
            self._steps = [self._steps[at] for at in kept]
            self._values = [self._values[at] for at in kept]
            self._numbers = [self._numbers[at] for at in kept]

    def points(self) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
        """The steps and values of the points to show, alike over the whole run, and the last one."""
        places = range(len(self._steps)) if len(self._steps) <= MOST_POINTS else self._kept()
        shown = [*places, *([len(self._steps) - 1] if places and places[-1] != len(self._steps) - 1 else [])]
        return tuple(self._steps[at] for at in shown), tuple(self._values[at] for at in shown)

    def _kept(self) -> list[int]:
        """The places of at most so many points, in spans as short as that allows."""
        while len(kept := thinned(self._numbers, self._values, self._width)) >= MOST_POINTS:
            self._width *= 2
        return kept


class Watching:
    """Keeps the curves of a run."""

    def __init__(self) -> None:
        self.steps = 0
        self.ranks: set[int] = set()
        self.world = 1
        self.run: Run | None = None
        self._counted: int | None = None  # the optimizer whose steps are counted
        self._curves: dict[tuple[str, str, int], Curve] = {}
        self._last: dict[int, tuple[int, int]] = {}
        self._held: dict[tuple[int, str], HeldMemory] = {}
        self._resting: dict[int, Resting] = {}
        self._stepped: set[int] = set()

    def see(self, window: Window) -> None:
        """Take the numbers of a window."""
        rank = window.rank
        self.ranks.add(rank)
        self.run = self.run or window.run
        self.world = max(self.world, window.run.world)
        steps = window.named("step")
        self._stepped.update(map(optimizer_number, steps))
        for state in window.states:
            self._resting.setdefault(rank, Resting()).see(state)
        for call in steps:
            which = optimizer_number(call)
            self._counted = which if self._counted is None else self._counted
            # Counted are the steps of the first optimizer: one of it is the number of those before it.
            self.steps = max(self.steps, call.s + (which == self._counted))
        self.steps = max(self.steps, window.step)
        for pause in window.notes.get("paused", ()):
            self.steps = max(self.steps, pause["s"])  # those that were counted, of which nothing else was told
        for held in window.memory:
            self._holds(rank, held)
        if rank >= MOST_RANKS:
            return
        for number in window.numbers:
            name = _NAMES.get(number.name)
            if name is not None:
                self._add(name, number.object, rank, number.s, number.value)
        self._gradients(window)
        for held in window.memory:
            for told, field in _MEMORY.items():
                value = getattr(held, field)
                if value is not None:
                    self._add(told, held.device, rank, held.s, value)
        if window.calls and window.complete:
            began = window.calls[0].t
            last = self._last.get(rank)
            if last is not None and began > last[1] and last[0] > 0:  # the first iteration warms everything up
                self._add("step time", "", rank, window.step, (began - last[1]) / 1e9)
            self._last[rank] = (window.iteration, began)

    def series(self) -> tuple[Series, ...]:
        """The curves that have more than one point."""
        found = []
        for (name, subject, rank), curve in sorted(self._curves.items()):
            if len(curve) > 1:
                steps, values = curve.points()
                unit = _UNITS.get(name)
                found.append(Series(name=name, subject=subject, unit=unit, rank=rank, steps=steps, values=values))
        return tuple(found)

    def unseen(self) -> list[int]:
        """The optimizers none of whose steps was recorded, though what they hold has changed."""
        return sorted({one for resting in self._resting.values() for one in resting.moved()} - self._stepped)

    def memory(self) -> tuple[HeldMemory, ...]:
        """The most that each rank held of a device."""
        return tuple(self._held[key] for key in sorted(self._held))

    def _holds(self, rank: int, seen: Memory) -> None:
        """Keep the highest peaks: a program may set its allocator's back."""
        if seen.peak is None:
            return
        known = self._held.get((rank, seen.device))
        self._held[rank, seen.device] = HeldMemory(
            rank=rank,
            device=seen.device,
            peak_bytes=max(seen.peak, known.peak_bytes if known is not None else 0),
            peak_reserved_bytes=max(
                seen.peak_reserved or 0, (known.peak_reserved_bytes or 0) if known is not None else 0
            )
            or None,
            capacity_bytes=seen.capacity,
        )

    def _add(self, name: str, subject: str, rank: int, step: int, value: float | None) -> None:
        key = (name, subject, rank)
        curve = self._curves.get(key)
        if curve is None:
            if len(self._curves) >= MOST_SERIES:
                return
            curve = self._curves[key] = Curve()
        curve.add(step, value)

    def _gradients(self, window: Window) -> None:
        """The norm over all gradients that a step found, where nobody told it."""
        if not window.states or any(number.name == "grad_norm" for number in window.numbers):
            return
        for state in window.state("before_step", "gradient"):
            norms = [norm for norm in state.norm if norm is not None]
            if norms:
                known = window.run.variables.get(state.ids[0])
                subject = f"optimizer{known.optimizer}" if known is not None else ""
                total = math.sqrt(sum(norm * norm for norm in norms))
                self._add("gradient norm", subject, window.rank, state.s, total)


class Marks:
    """Counts broken examples by rank and step, in spans that grow with the run."""

    def __init__(self) -> None:
        self.width = 1
        self._counts: dict[tuple[int, int], int] = {}
        self._last = 0

    def add(self, ranks: tuple[int, ...], step: int) -> None:
        """Count an example."""
        self._last = max(self._last, step)
        while self._last // self.width >= MOST_COLUMNS:
            self._widen()
        for rank in ranks:
            key = (rank, step // self.width)
            self._counts[key] = self._counts.get(key, 0) + 1

    def _widen(self) -> None:
        self.width *= 2
        wider: dict[tuple[int, int], int] = {}
        for (rank, span), count in self._counts.items():
            wider[rank, span // 2] = wider.get((rank, span // 2), 0) + count
        self._counts = wider

    def marks(self) -> tuple[Mark, ...]:
        """The counts, by rank and step."""
        return tuple(Mark(rank, span * self.width, count) for (rank, span), count in sorted(self._counts.items()))
