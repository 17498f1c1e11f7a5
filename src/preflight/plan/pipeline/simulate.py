"""An exact simulation of a pipeline's schedule: every piece of work starts when its stage and its input are there."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from preflight.plan.pipeline.orders import Schedule, Work, order_of

# The share of a backward pass that computes gradients of weights, which nothing waits for: one of two products.
_WEIGHTS = 0.5


class Span(msgspec.Struct, frozen=True):
    """A piece of work on a stage: ``F``, ``B``, or ``W`` (gradients of weights), with its start and end in seconds."""

    stage: int
    kind: str
    micro: int
    chunk: int
    start: float
    end: float


class Timeline(msgspec.Struct, frozen=True):
    """What a simulation saw.

    Attributes:
        seconds: From the first start to the last end.
        spans: Every piece of work, by its stage and start.
        busy: Seconds of work of each stage.
        in_flight: The most micro-batches (whole ones, chunks counted by their share) whose activations a stage held.
    """

    seconds: float
    spans: tuple[Span, ...]
    busy: tuple[float, ...]
    in_flight: tuple[float, ...]

    @property
    def bubble(self) -> float:
        """The share of the time that the busiest stage waits."""
        return 1 - max(self.busy) / self.seconds if self.seconds else 0.0


class _Stage:
    """What a stage has done and is to do."""

    def __init__(self, work: list[Work]) -> None:
        self.work, self.at, self.free = work, 0, 0.0
        self.waiting: list[Work] = []
        self.busy, self.held, self.most = 0.0, 0.0, 0.0


def simulate(
    forward: Sequence[float],
    backward: Sequence[float],
    micro_batches: int,
    schedule: Schedule = "1f1b",
    chunks: int = 1,
    hop: float = 0.0,
) -> Timeline:
    """Run a schedule.

    Args:
        forward: Seconds of one micro-batch's forward pass on each stage (all its chunks together).
        backward: The same of the backward pass.
        micro_batches: How many there are.
        schedule: The order of work.
        chunks: Model chunks of a stage (``interleaved``).
        hop: Seconds from one stage to the next, beside which stages work.

    Raises:
        ValueError: The schedule does not go with these numbers.
    """
    count = len(forward)
    chunks = chunks if schedule == "interleaved" else 1
    stages = [_Stage(order_of(schedule, at, count, micro_batches, chunks)) for at in range(count)]
    done: dict[tuple[int, str, int, int], float] = {}
    spans: list[Span] = []
    split = schedule == "zb-h1"
    progress = True
    while progress:
        progress = False
        for index, stage in enumerate(stages):
            while stage.at < len(stage.work):
                piece = stage.work[stage.at]
                ready = _ready(piece, index, count, chunks, done, hop)
                if ready is None:
                    break
                if split:
                    _fill(stage, index, ready, backward[index] * _WEIGHTS, spans)
                seconds = (forward if piece.kind == "F" else backward)[index] / chunks
                if split and piece.kind == "B":
                    seconds *= 1 - _WEIGHTS
                    stage.waiting.append(piece)
                start = max(stage.free, ready)
                stage.free = start + seconds
                stage.busy += seconds
                done[index, piece.kind, piece.micro, piece.chunk] = stage.free
                spans.append(Span(index, piece.kind, piece.micro, piece.chunk, start, stage.free))
                stage.held += (1 if piece.kind == "F" else -1) / chunks
                stage.most = max(stage.most, stage.held)
                stage.at += 1
                progress = True
    if any(stage.at < len(stage.work) for stage in stages):
        raise ValueError("the schedule waits for itself")
    for index, stage in enumerate(stages):
        _fill(stage, index, float("inf"), backward[index] * _WEIGHTS, spans)
    spans.sort(key=lambda span: (span.stage, span.start))
    return Timeline(
        seconds=max(stage.free for stage in stages),
        spans=tuple(spans),
        busy=tuple(stage.busy for stage in stages),
        in_flight=tuple(stage.most for stage in stages),
    )


def _ready(
    piece: Work, stage: int, stages: int, chunks: int, done: dict[tuple[int, str, int, int], float], hop: float
) -> float | None:
    """Return when the input of a piece of work is there; None when what makes it has not been done."""
    if piece.kind == "F":
        if stage == 0 and piece.chunk == 0:
            return 0.0
        before = (
            (stage - 1, "F", piece.micro, piece.chunk) if stage else (stages - 1, "F", piece.micro, piece.chunk - 1)
        )
    elif stage == stages - 1 and piece.chunk == chunks - 1:
        return done.get((stage, "F", piece.micro, piece.chunk))
    elif stage == stages - 1:
        before = (0, "B", piece.micro, piece.chunk + 1)
    else:
        before = (stage + 1, "B", piece.micro, piece.chunk)
    made = done.get(before)
    if made is None:
        return None
    return made + (hop if before[0] != stage else 0.0)


def _fill(stage: _Stage, index: int, until: float, seconds: float, spans: list[Span]) -> None:
    """Compute gradients of weights that wait, as far as they end before the next piece of work can start."""
    while stage.waiting and stage.free + seconds <= until + 1e-12:
        piece = stage.waiting.pop(0)
        spans.append(Span(index, "W", piece.micro, piece.chunk, stage.free, stage.free + seconds))
        stage.free += seconds
        stage.busy += seconds
