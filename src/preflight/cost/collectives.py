"""How long collectives take: rings and trees inside a node and between nodes.

A collective over n ranks moves c x S bytes through every rank, c = 2 (n - 1) / n for an all-reduce and (n - 1) / n for an
all-gather, a reduce-scatter and an all-to-all (nccl-tests, PERFORMANCE.md). Its rate is that of the narrowest place: the
link inside a node, or the network cards that the ranks of one node share out among themselves. On top come steps of
latency, which grow with the logarithm of the number of ranks for small messages (trees) and a term with the square root
of the size, which measured curves need (a fit of all-reduce curves of 8 GPUs has 2 % error with it and 7 % without).
"""

from __future__ import annotations

import msgspec

from preflight.cost.machine import Machine
from preflight.cost.numeric import larger, logarithm2, root, smaller, where

# Seconds x byte^-1/2: 34 us at 1 MiB on 8 H200 give a few microseconds of this term.
_ROOT = 6e-9


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Ranks that talk to each other.

    Attributes:
        size: How many.
        stride: The distance between neighbours in the order of ranks: the product of the axes that vary faster.
    """

    size: float
    stride: float = 1

    def ranks_in_node(self, gpus_per_node: int) -> float:
        """Return how many of them share a node."""
        inside = larger(gpus_per_node / self.stride, 1.0)
        return smaller(inside, self.size)


def collective_seconds(machine: Machine, group: Group, size: float, factor: float) -> float:
    """Return the seconds of one collective; nothing for a single rank.

    Args:
        machine: The rates.
        group: Its ranks.
        size: Bytes of the whole result (of one rank's input, for an all-reduce).
        factor: 2 for an all-reduce, 1 for gathering, scattering and exchanging.
    """
    given = machine.coefficients
    inside = group.ranks_in_node(machine.gpus_per_node)
    across = group.size > inside
    moved = factor * (group.size - 1) / larger(group.size, 1) * size
    # Each rank of the group in a node brings its own network card: together they carry the traffic of the node.
    network = smaller(machine.network * inside, machine.fabric)
    rate = where(across, where(inside > 1, network, machine.network), machine.fabric)
    latency = where(across, given.network_latency, given.fabric_latency) * factor
    steps = logarithm2(larger(group.size, 2))
    seconds = latency * (1 + steps) + _ROOT * root(moved) + moved / rate
    return where(group.size > 1, seconds, 0.0)


def all_reduce(machine: Machine, group: Group, size: float) -> float:
    """Return the seconds of an all-reduce of ``size`` bytes."""
    return collective_seconds(machine, group, size, 2.0)


def gather(machine: Machine, group: Group, size: float) -> float:
    """Return the seconds of an all-gather or a reduce-scatter whose whole is ``size`` bytes."""
    return collective_seconds(machine, group, size, 1.0)


def exchange(machine: Machine, group: Group, size: float) -> float:
    """Return the seconds of an all-to-all in which every rank sends ``size`` bytes away."""
    given = machine.coefficients
    inside = group.ranks_in_node(machine.gpus_per_node)
    across = group.size > inside
    away = size * (1 - inside / larger(group.size, 1)) / machine.network
    near = size * (inside - 1) / larger(group.size, 1) / machine.fabric
    latency = where(across, given.network_latency, given.fabric_latency)
    return where(group.size > 1, latency * (1 + logarithm2(larger(group.size, 2))) + larger(away, near), 0.0)


def transfer(machine: Machine, stride: float, size: float) -> float:
    """Return the seconds of a message to the rank ``stride`` further on."""
    across = stride >= machine.gpus_per_node
    given = machine.coefficients
    latency = where(across, given.network_latency, given.fabric_latency)
    return latency + size / where(across, machine.network, machine.fabric)
