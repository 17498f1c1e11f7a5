"""The cheapest run that would tell two layouts apart."""

from __future__ import annotations

import msgspec

from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.plan import Candidate
from preflight.vocabulary.run import recompute_setting

_STEPS, _START = 20, 120.0
_MINUTES = 2.0


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """Something to measure.

    Attributes:
        what: The coefficients that it measures.
        words: What they are to a person. how: What to run, with a place for the number of GPUs.
        nodes: Nodes that it needs; 0 for a single GPU.
    """

    what: tuple[str, ...]
    words: str
    how: str
    nodes: int


_SMALL = (
    Experiment(
        what=("matmul", "attention", "bandwidth", "head", "kernel", "host", "optimizer"),
        words="the speed of single kernels", how="one block's forward and backward pass timed on one GPU", nodes=0,
    ),
    Experiment(
        what=("fabric", "fabric_latency"), words="the link inside a node",
        how="all_reduce_perf of nccl-tests on the {gpus} GPUs of one node", nodes=1,
    ),
    Experiment(
        what=("network", "network_latency"), words="the network between nodes",
        how="all_reduce_perf of nccl-tests on {gpus} GPUs of two nodes", nodes=2,
    ),
)  # fmt: skip


def experiment_of(cluster: Cluster, first: Candidate, rival: Candidate, chance: float, shares: dict[str, float]) -> str:
    """Return one sentence: what is in doubt, what to run, and how many GPU-minutes that takes.

    A measurement of the hardware is enough when it explains most of the doubt; else both layouts have to be run.
    """
    names = f"{in_short(first)} and {in_short(rival)}"
    said = f"{names} lie within what is not known (the second is the quickest in {chance * 100:.0f} % of the draws)"
    both = (
        cluster.num_gpus
        * sum(_START + _STEPS * (one.step.seconds.mid if one.step else 0.0) for one in (first, rival))
        / 60
    )
    for small in sorted(_SMALL, key=lambda one: one.nodes):
        share = sum(shares.get(name, 0.0) for name in small.what)
        gpus = min(max(small.nodes * cluster.gpus_per_node, 1), cluster.num_gpus)
        if share >= 0.6 and gpus * _MINUTES < both:
            how = small.how.format(gpus=gpus)
            return f"{said}; {small.words} is {min(share, 1.0) * 100:.0f} % of the doubt: {how}, {gpus * _MINUTES:.0f} GPU-minutes, would tell"
    return (
        f"{said}; {_STEPS} steps of each on {cluster.num_gpus} GPUs, {both:,.0f} GPU-minutes with start-up, would tell"
    )


def in_short(one: Candidate) -> str:
    """Return a layout in a few words, those of the table of candidates: ``tp 8 pp 4 shard 2 zero 1 (megatron) micro-batch 1``."""
    parallel = one.parallel
    degrees = {
        "tp": parallel.tp,
        "pp": parallel.pp,
        "cp": parallel.cp,
        "ep": parallel.ep,
        "vp": parallel.vp,
        "dp": parallel.dp_replicate,
        "shard": parallel.dp_shard,
    }
    said = " ".join(f"{name} {degree}" for name, degree in degrees.items() if degree > 1) or "one GPU"
    zero = f" zero {parallel.zero_stage}" if parallel.dp_shard > 1 and parallel.zero_stage < 3 else ""
    framework = f" ({parallel.framework})" if parallel.framework else ""
    again = "" if one.run.recompute == "none" else f", recompute {recompute_setting(one.run)}"
    return f"{said}{zero}{framework} micro-batch {one.run.micro_batch}{again}"
