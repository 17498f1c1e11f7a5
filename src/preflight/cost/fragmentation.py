"""What torch's caching allocator holds beyond what it has handed out, as a distribution."""

from __future__ import annotations

import math

from preflight.cost.numeric import larger
from preflight.vocabulary.quantity import MIB, Interval
from preflight.vocabulary.run import RunSpec

# Reserved over allocated at the peak: 1.03 to 1.09 measured on Megatron and NGC runs, up to 1.20 for eager torchtitan.
# A log-normal share with median 6 % and 5 to 95 % at 2 to 20 %. Lengths that vary, and attention matrices that are
# written out (the largest blocks of a step, freed and asked for again in other sizes), leave more holes. So do experts
# that take as many tokens as come: their tensors have another size in every layer and step.
_MEDIAN, _SIGMA = 0.06, 0.70
_MEDIAN_UNEVEN = 0.12


def reserved_share(run: RunSpec, experts: int = 0) -> Interval:
    """Return the share of the allocated bytes that is held on top; ``experts`` of the model, 0 where there are none."""
    dropless = experts > 0 and run.expert_capacity is None
    uneven = run.variable_length or dropless or run.attention in ("eager", "math")
    median = _MEDIAN_UNEVEN if uneven else _MEDIAN
    if run.held_share is not None:
        median = run.held_share
    return Interval(median * math.exp(-1.645 * _SIGMA), median, median * math.exp(1.645 * _SIGMA))


def reserved_extra(run: RunSpec, allocated: float, experts: int = 0) -> Interval:
    """Return the bytes held on top of ``allocated``; at least half a segment of 20 MiB is open."""
    share = reserved_share(run, experts)
    segment = 20.0 * MIB
    return Interval(
        allocated * share.low,
        larger(segment / 2, allocated * share.mid),
        larger(segment, allocated * share.high),
    )


def normal_cdf(x: float) -> float:
    """Return the standard normal distribution function."""
    return 0.5 * (1.0 + math.erf(x / math.sqrt(2.0)))


def probability_below(value: Interval, limit: float) -> float:
    """Return the probability that a quantity with this 5 % to 95 % interval is at most ``limit``.

    Each side is taken as log-normal with its own width (the interval need not be symmetric).
    """
    if value.mid <= 0:
        return 1.0 if limit >= 0 else 0.0
    if limit <= 0:
        return 0.0
    edge = value.high if limit >= value.mid else value.low
    sigma = abs(math.log(max(edge, 1.0) / value.mid)) / 1.645
    if sigma < 1e-9:
        return 1.0 if limit >= value.mid else 0.0
    return normal_cdf(math.log(limit / value.mid) / sigma)
