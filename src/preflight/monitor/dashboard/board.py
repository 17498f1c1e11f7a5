"""The numbers of a run that a person looks at while it goes on, taken from its windows as they are judged."""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

from preflight.monitor.dashboard.curves import Curve
from preflight.monitor.dashboard.spans import Spans
from preflight.monitor.series import Watching
from preflight.monitor.window import Memory, Window

MOST_RANKS = 8
"""Ranks whose own curves are kept."""
MOST_CURVES = 96
_RECENT = 32
"""Iterations that the speed of a run is taken over."""
_CHARTS = {"loss": "loss", "lr": "learning rate", "grad_norm": "gradient norm", "scale": "loss scale"}
_MEMORY = {"allocated": "allocated", "reserved": "reserved", "peak": "peak so far"}
_WHOLE = ("int64", "int32")


class Key(NamedTuple):
    """What a curve is: the chart that it belongs to, of what it is, and of which rank."""

    chart: str
    subject: str
    rank: int


class Speed(NamedTuple):
    """How fast a rank was in its last iterations.

    Attributes:
        steps: Optimizer steps a second.
        seconds: Seconds of an iteration.
        samples: Samples a second that its loaders gave; None where no loader was recorded.
        tokens: Whole numbers a second in batches of the form (samples, length); None where batches are none.
        shape: The shape of such a batch.
    """

    steps: float | None
    seconds: float
    samples: float | None
    tokens: float | None
    shape: tuple[int, ...] | None


class _Turn(NamedTuple):
    """The beginning of an iteration: its time, its step, and what the loaders gave in it."""

    t: int
    step: int
    samples: int | None
    tokens: int | None
    shape: tuple[int, ...] | None


class Lately:
    """What is known of a rank.

    Attributes:
        iteration: The last iteration that was judged. step: Its step.
        memory: The last reading of each device, and of the host.
    """

    def __init__(self) -> None:
        self.iteration = -1
        self.step = 0
        self.memory: dict[str, Memory] = {}
        self.turns: deque[_Turn] = deque(maxlen=_RECENT + 1)

    def speed(self) -> Speed | None:
        """How fast it was lately; None before two iterations have begun."""
        turns = list(self.turns)
        if len(turns) < 2 or turns[-1].t <= turns[0].t:
            return None
        seconds = (turns[-1].t - turns[0].t) / 1e9
        done = turns[:-1]  # the last one has only begun
        advanced = turns[-1].step - turns[0].step
        samples = [turn.samples for turn in done if turn.samples is not None]
        tokens = [turn.tokens for turn in done if turn.tokens is not None]
        # A rate over iterations of which some gave nothing would be of something else.
        return Speed(
            steps=advanced / seconds if advanced > 0 else None,
            seconds=seconds / len(done),
            samples=sum(samples) / seconds if len(samples) == len(done) else None,
            tokens=sum(tokens) / seconds if len(tokens) == len(done) else None,
            shape=done[-1].shape if len(tokens) == len(done) else None,
        )


class Board(Watching):
    """Keeps curves, step times and the last word of every rank, besides the curves of a report."""

    def __init__(self) -> None:
        super().__init__()
        self.curves: dict[Key, Curve] = {}
        self.spans = Spans()
        self.lately: dict[int, Lately] = {}

    def see(self, window: Window) -> None:
        """Take the numbers of a window."""
        super().see(window)
        rank = window.rank
        known = self.lately.setdefault(rank, Lately())
        if window.calls:
            self._turn(known, window)
        for held in window.memory:
            known.memory[held.device] = held
            self._memory(held, rank)
        for number in window.numbers:
            chart = _CHARTS.get(number.name)
            if chart is not None:
                self._put(Key(chart, number.object, rank), number.s, number.value)
        if not any(number.name == "grad_norm" for number in window.numbers):
            self._gradients_of(window)

    def _turn(self, known: Lately, window: Window) -> None:
        began = window.calls[0].t
        if known.turns and window.iteration != known.iteration + 1:
            known.turns.clear()  # an iteration is missing: the time between says nothing of one
        if known.turns and window.iteration > 1 and window.complete and began > known.turns[-1].t:
            seconds = (began - known.turns[-1].t) / 1e9
            self.spans.add(window.rank, known.turns[-1].step, seconds)
            self._put(Key("step time", "", window.rank), known.turns[-1].step, seconds)
        if window.iteration == 1:
            known.turns.clear()  # the first iteration warms everything up
        known.turns.append(_Turn(began, window.step, *_given(window)))
        known.iteration = window.iteration
        known.step = max([known.step, *(call.s + 1 for call in window.named("step"))])

    def _memory(self, held: Memory, rank: int) -> None:
        if held.resident is not None:
            self._put(Key("host memory", "resident", rank), held.s, held.resident)
        for name, word in _MEMORY.items():
            value = getattr(held, name)
            if value is not None:
                self._put(Key("device memory", f"{held.device} {word}", rank), held.s, value)

    def _gradients_of(self, window: Window) -> None:
        """Put the norm over all gradients that a step found, where nobody told it."""
        for state in window.state("before_step", "gradient"):
            norms = [norm for norm in state.norm if norm is not None]
            if norms:
                known = window.run.variables.get(state.ids[0])
                subject = f"optimizer{known.optimizer}" if known is not None else ""
                total = math.sqrt(sum(norm * norm for norm in norms))
                self._put(Key("gradient norm", subject, window.rank), state.s, total)

    def _put(self, key: Key, step: int, value: float | None) -> None:
        curve = self.curves.get(key)
        if curve is None:
            if key.rank >= MOST_RANKS or len(self.curves) >= MOST_CURVES:
                return
            curve = self.curves[key] = Curve()
        curve.add(step, value)


def _given(window: Window) -> tuple[int | None, int | None, tuple[int, ...] | None]:
    """What the loaders gave in an iteration: samples, whole numbers of sequences, and the shape of the last batch of them."""
    samples = [batch.size for batch in window.batches if batch.size is not None]
    shapes = [
        tuple(batch.shapes[0])
        for batch in window.batches
        if batch.shapes and len(batch.shapes[0]) == 2 and batch.dtypes[0] in _WHOLE
    ]
    return (
        sum(samples) if samples else None,
        sum(shape[0] * shape[1] for shape in shapes) if shapes else None,
        shapes[-1] if shapes else None,
    )
