"""How long collectives take: rings and trees inside a node and between nodes.

A collective over n ranks moves c x S bytes through every rank, c = 2 (n - 1) / n for an all-reduce and (n - 1) / n for an
all-gather, a reduce-scatter and an all-to-all (nccl-tests, PERFORMANCE.md). Between nodes it is hierarchical: ranks of a
node reduce among themselves, and only their k-th part leaves the node, over all network cards that the group has there.
On top come steps of latency, which grow with the logarithm of the number of ranks (trees), and a term with the square root
of the size, which measured curves need: all-reduce of 6 to 370 MB over eight A100 follows 45 us + 6.6e-9 sqrt(S) + 1.75 S /
235e9 (nccl-tests figures in VIA-Research/vTrain, trace/a100), and one of eight H200 has 2 % error with it and 7 % without.
"""

from __future__ import annotations

import msgspec

from preflight.cost.machine import Machine
from preflight.cost.numeric import larger, logarithm2, root, smaller, where

# Seconds x byte^-1/2.
_ROOT = 6e-9
# Two GPUs reach less of a switched link than four or eight: 202 against 227 and 237 GB/s on A100 (same figures).
_PAIR = 0.86


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


def fabric_rate(machine: Machine, inside: float) -> float:
    """Return bytes per second between ``inside`` ranks of one node.

    Where every pair has a link of its own (xGMI), a group has only the links among its members: two GPUs of eight use one
    of seven.
    """
    if machine.meshed:
        return machine.fabric * smaller((inside - 1) / max(machine.gpus_per_node - 1, 1), 1.0)
    return machine.fabric * where(inside <= 2, _PAIR, 1.0)


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
    nodes = group.size / larger(inside, 1.0)
    across = nodes > 1
    fabric = larger(fabric_rate(machine, inside), 1.0)
    if factor == 2.0 and machine.multicast:
        fabric = fabric * where((inside >= machine.multicast) & (nodes <= 1), machine.multicast_gain, 1.0)
    near = factor * (inside - 1) / larger(inside, 1) * size / fabric
    # Every rank of the group brings its own share of the node's network cards.
    far = factor * (nodes - 1) / larger(nodes, 1) * size / (machine.network * inside)
    latency = where(across, machine.network_latency, given.fabric_latency) * factor
    steps = logarithm2(larger(group.size, 2))
    moved = factor * (group.size - 1) / larger(group.size, 1) * size
    seconds = latency * (1 + steps) + _ROOT * root(moved) + larger(near, far)
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
    near = size * (inside - 1) / larger(group.size, 1) / larger(fabric_rate(machine, inside), 1.0)
    latency = where(across, machine.network_latency, given.fabric_latency)
    return where(group.size > 1, latency * (1 + logarithm2(larger(group.size, 2))) + larger(away, near), 0.0)


def transfer(machine: Machine, stride: float, size: float) -> float:
    """Return the seconds of a message to the rank ``stride`` further on."""
    across = stride >= machine.gpus_per_node
    given = machine.coefficients
    latency = where(across, machine.network_latency, given.fabric_latency)
    near = fabric_rate(machine, 2.0)
    return latency + size / where(across, machine.network, near)
