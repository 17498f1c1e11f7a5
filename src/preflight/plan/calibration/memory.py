"""What runs that were measured hold beside what their formulas say: a factor of the activations, and holes of the allocator.

Parameters, gradients and states are arithmetic; what a stack's own code keeps for its backward pass is not, and of a
measured peak that is what is left to be wrong. So the factor is the one with which the estimate has the peak that was
measured, weighed against how far the formula may be off (a few per cent of a peak say nothing of activations that are a
tenth of it).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from preflight.cost.fragmentation import reserved_share
from preflight.cost.memory import estimate_memory
from preflight.plan.calibration.record import MemoryFit, shape_of
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.quantity import format_bytes
from preflight.vocabulary.run import ParallelDims, RunSpec

_LEAST, _MOST = 0.25, 4.0
"""Factors beyond which the run that was measured is taken for another one than the options describe."""
_READS = 0.02
"""How far a peak is off between runs of the same settings, as a logarithm: batches of other lengths, versions."""
_FORMULA = 0.15
"""How far the formula of the activations may be off, between the widths of exact and of scaled architectures."""
_HOLES, _HOLES_AGAIN = 0.70, 0.35
"""How far the share of holes is off between stacks, and between runs of one."""
_FEWEST_HOLES = 0.002


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """The most that one rank of a run held of its GPU: bytes that were handed out, and bytes of the allocator."""

    allocated: float
    reserved: float | None = None


class MemorySample(msgspec.Struct, frozen=True, kw_only=True):
    """A run and what it held. ``name``: where that was read."""

    model: ModelSpec
    run: RunSpec
    parallel: ParallelDims
    cluster: Cluster
    held: Held
    name: str = ""


def fit_memory(samples: Iterable[MemorySample]) -> tuple[tuple[MemoryFit, ...], tuple[str, ...]]:
    """Return what the samples say of each model, and why some of them say nothing.

    Args:
        samples: Runs with what they held.
    """
    factors: dict[tuple[float, float], list[tuple[float, float]]] = {}
    holes: dict[tuple[float, float], list[float]] = {}
    problems = []
    for sample in samples:
        found = _factor(sample)
        if isinstance(found, str):
            problems.append(f"{sample.name}: {found}")
            continue
        shape = shape_of(sample.model)
        factors.setdefault(shape, []).append(found)
        if sample.held.reserved is not None:
            share = max(sample.held.reserved / sample.held.allocated - 1, _FEWEST_HOLES)
            holes.setdefault(shape, []).append(_share(sample, share))
    fits = tuple(
        MemoryFit(
            shape=shape, rows=len(said), activations=_together(said),
            held=math.exp(sum(map(math.log, holes[shape])) / len(holes[shape])) if shape in holes else None,
        )
        for shape, said in sorted(factors.items())
    )  # fmt: skip
    return fits, tuple(problems)


def _factor(sample: MemorySample) -> tuple[float, float] | str:
    """Return the logarithm of the factor with the inverse of its variance, or why there is none."""
    middle, activations = _peak(sample, 1.0)
    if middle is None:
        return "the memory of such a run is not known, so what it held says nothing"
    measured = sample.held.allocated
    low, high = _peak(sample, _LEAST)[0] or 0.0, _peak(sample, _MOST)[0] or 0.0
    if not low <= measured <= high:
        return (
            f"{format_bytes(measured)} were allocated at most, where the run that the options describe takes "
            f"{format_bytes(middle)}: its memory is left out"
        )
    below, above = math.log(_LEAST), math.log(_MOST)
    for _ in range(40):
        half = (below + above) / 2
        if (_peak(sample, math.exp(half))[0] or 0.0) < measured:
            below = half
        else:
            above = half
    if activations <= 0:
        return "no activations lie at its peak, so what it held says nothing of them"
    spread = _READS * middle / activations
    return (below + above) / 2, 1 / spread**2


def _peak(sample: MemorySample, factor: float) -> tuple[float | None, float]:
    """Return the peak of the allocated bytes with so much of the activations, and the part of them in it."""
    run = msgspec.structs.replace(sample.run, activation_factor=factor)
    memory = estimate_memory(sample.model, run, sample.parallel, sample.cluster.gpu)
    if memory.peak_bytes is None or memory.breakdown is None:
        return None, 0.0
    return memory.peak_bytes.mid, memory.breakdown.activations


def _together(said: list[tuple[float, float]]) -> float:
    """Return the factor of all runs and of what was known before, each by the inverse of its variance."""
    weight = 1 / _FORMULA**2 + sum(precision for _, precision in said)
    return math.exp(sum(value * precision for value, precision in said) / weight)


def _share(sample: MemorySample, measured: float) -> float:
    """Return the share of holes between what is usual and what was measured."""
    run = msgspec.structs.replace(sample.run, held_share=None)
    usual = reserved_share(run, sample.model.experts).mid
    weight = _HOLES**2 / (_HOLES**2 + _HOLES_AGAIN**2)
    return math.exp((1 - weight) * math.log(usual) + weight * math.log(measured))
