"""In which order a stage works through its micro-batches, by schedule."""

from __future__ import annotations

from typing import Literal

import msgspec

Schedule = Literal["gpipe", "1f1b", "interleaved", "zb-h1"]
SCHEDULES: tuple[Schedule, ...] = ("gpipe", "1f1b", "interleaved", "zb-h1")


class Work(msgspec.Struct, frozen=True):
    """A piece of work: ``F`` forward, ``B`` backward (of inputs alone in ``zb-h1``), of a micro-batch and a model chunk."""

    kind: str
    micro: int
    chunk: int = 0


def order_of(schedule: Schedule, stage: int, stages: int, micro_batches: int, chunks: int = 1) -> list[Work]:
    """Return the work of a stage in order.

    GPipe: all forward passes, then all backward passes (Huang et al. 2019). 1F1B: as many forward passes as there are
    stages behind, then one forward and one backward in turn (Narayanan et al. 2019). Interleaved: the same over the chunks
    of a stage, in groups of as many micro-batches as stages (Narayanan et al. 2021). Zero bubble H1 has the order of 1F1B;
    gradients of weights fill what would be waiting (Qi et al. 2023, arXiv 2401.10241).

    Raises:
        ValueError: Micro-batches are no multiple of the stages, which interleaving needs.
    """
    if schedule == "gpipe":
        return [Work("F", at) for at in range(micro_batches)] + [Work("B", at) for at in range(micro_batches)]
    if schedule == "interleaved" and chunks > 1:
        return _interleaved(stage, stages, micro_batches, chunks)
    warm = min(stages - stage - 1, micro_batches)
    work = [Work("F", at) for at in range(warm)]
    for at in range(micro_batches - warm):
        work += [Work("F", warm + at), Work("B", at)]
    return work + [Work("B", at) for at in range(micro_batches - warm, micro_batches)]


def _interleaved(stage: int, stages: int, micro_batches: int, chunks: int) -> list[Work]:
    if micro_batches % stages:
        raise ValueError(f"{micro_batches} micro-batches are no multiple of {stages} stages")
    total, group = micro_batches * chunks, stages * chunks

    def piece(at: int, forward: bool) -> Work:
        chunk = at % group // stages
        micro = at // group * stages + at % stages
        return Work("F", micro, chunk) if forward else Work("B", micro, chunks - 1 - chunk)

    warm = min((stages - stage - 1) * 2 + (chunks - 1) * stages, total)
    work = [piece(at, True) for at in range(warm)]
    for at in range(total - warm):
        work += [piece(warm + at, True), piece(at, False)]
    return work + [piece(at, False) for at in range(total - warm, total)]
