"""What is known of every coefficient before anything was measured: how far it may lie from the catalog's value, and why."""

from __future__ import annotations

import msgspec

from preflight.cost.machine import Coefficients


class Prior(msgspec.Struct, frozen=True, kw_only=True):
    """A normal distribution of the logarithm of a coefficient around its default.

    Attributes:
        spread: Its standard deviation; 0.1 is about ten per cent.
        most: The largest value that physics admits, or None.
        source: Why this wide.
    """

    spread: float
    source: str
    most: float | None = None


PRIORS: dict[str, Prior] = {
    "matmul": Prior(
        spread=0.10,
        most=1.1,
        source="0.72 to 0.77 of the peak over 183 products of an A100 (SimuMax's tables), where the largest one reaches 0.87",
    ),
    "attention": Prior(
        spread=0.25, source="0.5 to 0.75 of the peak by head size and length (arXiv 2307.08691, 2407.08608)"
    ),
    "bandwidth": Prior(spread=0.15, most=1.0, source="memory-bound kernels reach 0.6 to 0.9 of the bandwidth"),
    "head": Prior(spread=0.30, source="how often logits are read and written depends on the software's version"),
    "kernel": Prior(
        spread=0.50, source="2 us for a kernel that does nothing, up to 18 us fitted for a product's start and tail"
    ),
    "host": Prior(spread=0.50, source="5 to 25 us of host work before a kernel runs, by processor and software"),
    "tensor": Prior(spread=0.80, source="autograd function, stream waits and the call of the communication library"),
    "fabric": Prior(spread=0.12, most=1.0, source="0.70 to 0.82 of the link on A100, H200, B200 and MI300X (stas00)"),
    "network": Prior(spread=0.30, most=1.0, source="0.5 to 0.95 by switches, routing and neighbours"),
    "fabric_latency": Prior(spread=0.50, source="34 us for an all-reduce on eight H200, 41 us B200, 45 us A100"),
    "network_latency": Prior(spread=0.70, source="100 to 350 us for an all-reduce over four nodes by kind of network"),
    "hidden": Prior(spread=0.70, most=1.0, source="by bucket size and whether the framework overlaps"),
    "contention": Prior(spread=0.70, source="1.13 measured by Hetu-Galvatron; 0.15 of the multiprocessors in Calculon"),
    "straggler": Prior(spread=1.0, source="0 to 0.03 for each doubling of nodes"),
    "transfer": Prior(spread=1.0, most=1.0, source="whether sending and receiving overlap depends on the schedule"),
    "hop": Prior(spread=1.0, source="synchronous send and receive with shapes cost 50 to 500 us of the host"),
    "optimizer": Prior(spread=0.30, source="fused, multi-tensor or looped kernels"),
    "step": Prior(spread=1.2, source="logging, loss scale and loop: 0.5 to 20 ms"),
}


def default_of(name: str) -> float:
    """Return the value of a coefficient before calibration."""
    value: float = getattr(Coefficients(), name)
    return value
