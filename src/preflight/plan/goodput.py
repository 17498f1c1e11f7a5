"""How much of the time trains: failures, restarts, checkpoints, and the best interval between them."""

from __future__ import annotations

import math

from preflight.cost.parameters import count_parameters
from preflight.plan.request import Request
from preflight.vocabulary.plan import Candidate, Goodput

# Llama 3 405B lost 419 unexpected interruptions in 54 days of 16,384 H100 (arXiv 2407.21783, section 3.3.4):
# 54 x 24 x 16,384 / 419 = 50,700 GPU-hours between two.
GPU_HOURS_BETWEEN_FAILURES = 50_700.0
# Until training goes on: noticing, replacing a node, loading. Minutes, where it is automated (same source: 90 % goodput).
RESTART_SECONDS = 900.0
# A checkpoint keeps weights, fp32 copies and two moments: 14 bytes a parameter in bf16 training.
_BYTES_PER_PARAMETER = 14.0
# Shared storage of a cluster: what one node writes, and at most what storage takes as a whole.
_NODE_WRITES, _STORAGE_TAKES = 2e9, 200e9


def goodput_of(request: Request, candidate: Candidate) -> Goodput | None:
    """Return the share of the time that trains, with the interval between checkpoints that was given, or the best one.

    Young (1974): the interval sqrt(2 C M) for a checkpoint of C seconds and M seconds between failures; Daly (2006) adds
    terms of higher order. Lost: C for every interval, half an interval and the restart for every failure.
    """
    count = count_parameters(request.model)
    if count is None or candidate.step is None:
        return None
    gpus, nodes = request.cluster.num_gpus, request.cluster.nodes
    between = GPU_HOURS_BETWEEN_FAILURES * 3600 / gpus
    size = count.total * _BYTES_PER_PARAMETER
    given = request.storage_gb_per_s
    rate = min(_NODE_WRITES * nodes, _STORAGE_TAKES) if given is None else given * 1e9
    write = size / rate
    interval = best = best_interval(write, between)
    if request.checkpoint_steps is not None:
        interval = request.checkpoint_steps * candidate.step.seconds.mid
    lost = write / interval + (interval / 2 + RESTART_SECONDS) / between
    return Goodput(
        share=max(1 - lost, 0.0), checkpoint_interval_seconds=interval, checkpoint_seconds=write,
        seconds_between_failures=between, best_interval_seconds=best,
        basis=f"a failure every {GPU_HOURS_BETWEEN_FAILURES:,.0f} GPU-hours (Llama 3 405B, 16,384 H100), "
        f"{RESTART_SECONDS / 60:.0f} minutes to restart, checkpoints of {size / 1e9:,.0f} GB at "
        f"{rate / 1e9:.3g} GB/s{'' if given is None else ' (as given)'}, training waits for them"
        + ("" if request.checkpoint_steps is None else f"; one every {request.checkpoint_steps:,} steps (as given)"),
    )  # fmt: skip


def best_interval(write: float, between: float) -> float:
    """Return the seconds between checkpoints that lose least (Daly 2006, equation 37; ``between`` when writing is slower)."""
    if write >= 2 * between:
        return between
    ratio = write / (2 * between)
    return math.sqrt(2 * write * between) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - write
