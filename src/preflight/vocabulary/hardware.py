"""Hardware words: GPUs, links, and prices."""

from __future__ import annotations

import msgspec


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU as a driver presents it (an MI250X is two).

    Attributes:
        name: Canonical key: ``h100_sxm``.
        title: The name people use: ``NVIDIA H100 SXM5 80GB``.
        vendor: ``nvidia`` or ``amd``.
        aliases: Other spellings that resolve to it.
        memory_bytes: Total that the driver reports (``torch.cuda.get_device_properties().total_memory``).
        sold_as_gb: The size on the box.
        bandwidth: Memory bandwidth, bytes per second.
        peak_flops: Dense peak by dtype, FLOP per second: fp64, fp32, tf32, fp16, bf16, fp8, int8, fp4.
        achievable_flops: Largest matrix-multiply rate that was measured by dtype, FLOP per second, where published.
        achievable_bandwidth: What scaling a large vector reads and writes, bytes per second, where published.
        compute_capability: (major, minor) for NVIDIA; None for AMD.
        architecture: ``hopper``, ``ampere``, ``cdna3`` ...
        sms: Streaming multiprocessors or compute units.
        l2_bytes: Size of the L2 cache.
        fabric: Key of the GPU-to-GPU link in ``links/``, or None.
        host_link: Key of the link to the host.
        watts: Board power.
        gpus_per_node: The usual number in a node.
        context_bytes: Memory that the driver context takes before the first tensor.
        sources: Where each number was read.
    """

    name: str
    title: str
    vendor: str
    memory_bytes: int
    sold_as_gb: float
    bandwidth: float
    peak_flops: dict[str, float]
    architecture: str
    sources: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    achievable_flops: dict[str, float] = {}
    achievable_bandwidth: float | None = None
    compute_capability: tuple[int, int] | None = None
    sms: int | None = None
    l2_bytes: int | None = None
    fabric: str | None = None
    host_link: str | None = None
    watts: float | None = None
    gpus_per_node: int | None = None
    context_bytes: int | None = None
    notes: str | None = None


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A link between two devices or nodes.

    Attributes:
        bandwidth: One direction, per GPU, bytes per second.
        latency: Seconds of one hop.
        scope: ``intra_node``, ``inter_node`` or ``host``.
        topology: ``switched`` (any pair may use the whole bandwidth) or ``mesh`` (every pair has its share of it).
    """

    name: str
    title: str
    scope: str
    bandwidth: float
    sources: tuple[str, ...]
    latency: float | None = None
    aliases: tuple[str, ...] = ()
    topology: str = "switched"
    notes: str | None = None


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs of one kind, in nodes of one kind.

    Attributes:
        gpu: The GPU.
        num_gpus: All of them.
        gpus_per_node: Those of one node; ``num_gpus`` is a multiple of it, or smaller.
        intra: The link between GPUs of a node; None where they talk through the host alone.
        inter: The link between nodes, per GPU; None for a single node.
        nics_per_node: Network cards of a node, each with the bandwidth of ``inter``; one per GPU when None.
        host_memory_bytes: What a node's host has for offloaded states; None where that was not said.
    """

    gpu: Gpu
    num_gpus: int = 1
    gpus_per_node: int = 8
    intra: Link | None = None
    inter: Link | None = None
    nics_per_node: int | None = None
    host_memory_bytes: float | None = None

    @property
    def nodes(self) -> int:
        """The number of nodes, the last of which may not be full."""
        return -(-self.num_gpus // self.gpus_per_node)


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What an hour of one GPU costs, as a range with the date it was read."""

    gpu: str
    usd_per_hour_low: float
    usd_per_hour_high: float
    date: str
    sources: tuple[str, ...]
    usd_per_hour_mid: float | None = None
    kind: str = "on-demand"
    notes: str | None = None
