"""A cluster in rates: what a GPU and its links really deliver."""

from __future__ import annotations

from functools import cache

import msgspec

from preflight.catalog.hardware import load_link
from preflight.errors import PreflightError
from preflight.vocabulary.hardware import Cluster, Gpu
from preflight.vocabulary.run import RunSpec

# Share of the peak that the largest products reach, for GPUs without a published maximum: A100 271 of 312, H100 795 of
# 989, B200 1745 of 2250 (stas00's MAMF table); RTX 40 as A100.
REACHED = {
    "volta": 0.85,
    "turing": 0.80,
    "ampere": 0.87,
    "ada": 0.87,
    "hopper": 0.80,
    "blackwell": 0.78,
    "cdna3": 0.55,
}
# GeForce boards add up in fp32 at half the rate of their tensor cores, and power does not hold them back there: an RTX 3090
# Ti takes products of 8192 at 81 of 80 TFLOP/s, an RTX 4090 at 172 of 165, where an RTX A6000, the same chip at full rate,
# reaches 95 of 155 (mli/transformers-benchmarks, torch 1.13).
_HALF_RATE = 1.0
# A product of few inner steps spends them filling its pipeline: a K loop of 64 reaches about half the rate of an A100. What
# has to be waited for takes as long on a multiprocessor that multiplies more slowly, and is worth fewer steps there.
_FILL, _FILL_RATE = 96.0, 312e12 / 108
# Without tensor cores every step takes eight times as long.
_PLAIN_FILL = 12.0
# Share of an A100's bandwidth that scaling a vector reaches (1616 of 2039 GB/s): what the coefficient of bandwidth is of. The
# same benchmark reaches more elsewhere: 0.85 on GDDR6 (mli/transformers-benchmarks).
_SCALED = 1616 / 2039
# Attention kernels, forward and backward together, share of the peak with the causal half counted once, by what runs:
# FlashAttention-2 reaches 0.55 to 0.73 on an A100 (arXiv 2307.08691) and 0.35 to 0.40 on an H100; FlashAttention-3 and
# cuDNN 0.5 to 0.75 there (arXiv 2407.08608); FlashAttention-1 and the memory-efficient kernel that CUTLASS gives PyTorch
# about half of FlashAttention-2 (0.25 to 0.35 of the peak of an A100, arXiv 2307.08691 figures 4 and 5).
ATTENTION = {
    "flash": {"ampere": 0.60, "ada": 0.60, "hopper": 0.37, "blackwell": 0.37, "cdna3": 0.30},
    "cudnn": {"ampere": 0.60, "ada": 0.60, "hopper": 0.55, "blackwell": 0.55},
    "efficient": {"ampere": 0.30, "ada": 0.30, "hopper": 0.18, "volta": 0.25, "turing": 0.25},
}
# NVLink's switches add up an all-reduce themselves (NVLS) from so many GPUs of a node on; the ratio is that of measured
# bus rates with and without: 482 over 367 GB/s on eight H200, 846 over 682 on eight B200 (stas00/ml-engineering@744d01e,
# network/README.md).
_MULTICAST = {"hopper": (5, 482 / 367), "blackwell": (6, 846 / 682)}
# How quick the host beside a generation of GPUs is: the same small blocks of Megatron-LM's tests take 3.9 ms on a DGX H100,
# 5.5 on a DGX A100 and 5.0 beside a Grace; blocks of BERT on a V100's host of 2017 take twice those of an A100's.
_HOST = {"volta": 1.8, "turing": 1.4, "hopper": 0.7, "blackwell": 0.9}
# What a link between GPUs of a node is when the catalog names none: the slot they sit in.
_HOST_LINK = 25e9
# Share of the link to the host that copies from and to pinned memory reach: 25 of the 31.5 GB/s of PCIe 4.
_HOST_REACHED = 0.79
_INTER_LINK = 12.5e9


class Coefficients(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of hardware and software only within a range; each may be calibrated.

    Attributes:
        matmul: Share of the achievable rate that large products reach inside a model.
        attention: Factor on the table's share for flash attention.
        bandwidth: Share of the memory bandwidth that memory-bound kernels reach on an A100.
        head: Factor on the seconds of the output matrix and the loss.
        kernel: Seconds that every kernel takes on the GPU beside its work (start, tail).
        host: Seconds of the host for one operator.
        tensor: Operators of the host for a tensor-parallel collective, beside those of the block.
        fabric: Share of the link inside a node that large collectives reach.
        network: Share of the link between nodes.
        fabric_latency: Seconds for one step of a collective inside a node.
        network_latency: The same between nodes, beside the latency of the link itself.
        hidden: Share of the backward pass beside which gradients can be reduced, where the framework overlaps at all.
        contention: By how much compute slows down while a collective runs beside it.
        straggler: Growth of a step with the logarithm of the number of nodes.
        transfer: Share of a transfer between pipeline stages that nothing hides in the steady phase.
        hop: Seconds of the host for a transfer between pipeline stages.
        optimizer: Factor on the bytes that the optimizer's step moves.
        step: Seconds of the host for every optimizer step: logging, loss scale, loop.
    """

    matmul: float = 0.90
    attention: float = 1.0
    bandwidth: float = 0.80
    head: float = 1.0
    kernel: float = 3.0e-6
    host: float = 9.0e-6
    tensor: float = 4.0
    fabric: float = 0.79
    network: float = 0.78
    fabric_latency: float = 6.0e-6
    network_latency: float = 15.0e-6
    hidden: float = 0.7
    contention: float = 0.13
    straggler: float = 0.01
    transfer: float = 0.5
    hop: float = 1.0e-4
    optimizer: float = 1.0
    step: float = 3.0e-3


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster in rates: FLOP and bytes per second, seconds.

    Attributes:
        matmul: FLOP per second of large products in the type that the run computes in.
        attention: FLOP per second of flash attention.
        bandwidth: Bytes per second of memory-bound kernels.
        fabric: Bytes per second of a large collective inside a node, one direction per GPU.
        meshed: Whether every pair of GPUs has a link of its own, so that a group uses only the links inside it.
        multicast: GPUs of a node from which on the switch itself adds up an all-reduce; 0 where it cannot.
        multicast_gain: What that is worth: all-reduce over gathering, in bytes per second of a bus.
        network: The same between nodes, per GPU.
        gpus_per_node: GPUs of a node.
        sms: Multiprocessors, over which the tiles of a product are dealt out.
        architecture: Of the GPU. tensor_cores: Whether products of this type run on them.
        fill: Inner steps of a product that filling its pipeline is worth.
        peak: FLOP per second that the data sheet promises, the basis of MFU.
        host_link: Bytes per second between the GPU and the host's memory.
        operator: Seconds of the host for one operator.
        network_latency: Seconds for one step of a collective between nodes.
    """

    matmul: float
    attention: float
    bandwidth: float
    fabric: float
    meshed: bool
    multicast: int
    multicast_gain: float
    network: float
    gpus_per_node: int
    sms: int
    architecture: str
    tensor_cores: bool
    fill: float
    peak: float
    host_link: float
    operator: float
    network_latency: float
    coefficients: Coefficients


def compute_dtype(run: RunSpec) -> str:
    """Return the type in which matrix products are taken."""
    names = {"autocast-fp16": "fp16", "pure-fp16": "fp16", "fp16": "fp16", "fp32": "fp32", "tf32": "tf32"}
    return names.get(run.precision, {"fp8": "fp8", "fp64": "fp64"}.get(run.precision, "bf16"))


def half_of(gpu: Gpu | None) -> str:
    """Return the type of 16 bits that a GPU computes in; bf16 where no rate of either is known."""
    peaks = gpu.peak_flops if gpu is not None else {}
    return "fp16" if peaks.get("fp16") and not peaks.get("bf16") else "bf16"


def attention_share(run: RunSpec, architecture: str) -> float:
    """Return the share of the peak that the attention kernel of a run reaches.

    Megatron takes Transformer Engine's attention, which is cuDNN's or FlashAttention-3 on Hopper and later.
    """
    kind = "cudnn" if run.stack == "megatron" and run.attention == "flash" else run.attention
    table = ATTENTION.get(kind, ATTENTION["flash"])
    return table.get(architecture, 0.3)


def reached(gpu: Gpu) -> float:
    """Return the share of a GPU's peak that its largest products reach: measured, or that of boards of its kind."""
    for dtype in ("bf16", "fp16"):
        if dtype in gpu.achievable_flops and gpu.peak_flops.get(dtype):
            return gpu.achievable_flops[dtype] / gpu.peak_flops[dtype]
    half_rate = gpu.peak_flops.get("int8", 0.0) > 3 * gpu.peak_flops.get("fp16", float("inf"))
    return _HALF_RATE if half_rate else REACHED.get(gpu.architecture, 0.75)


def host_rate(gpu: Gpu) -> float:
    """Return bytes per second between a GPU and the host's memory, one direction."""
    return _host_rate(gpu.host_link) if gpu.host_link else _HOST_LINK


@cache
def _host_rate(name: str) -> float:
    try:
        return load_link(name).bandwidth * _HOST_REACHED
    except PreflightError:
        return _HOST_LINK


def machine_of(cluster: Cluster, run: RunSpec, coefficients: Coefficients | None = None) -> Machine | None:
    """Return the rates of a cluster for a run, or None when the GPU's peak in the run's type is not known."""
    given = coefficients or Coefficients()
    gpu, dtype = cluster.gpu, compute_dtype(run)
    peaks = gpu.peak_flops
    peak = peaks.get(dtype)
    if not peak:
        return None
    achievable = gpu.achievable_flops.get(dtype) or peak * reached(gpu)
    sms, tensor_cores = gpu.sms or 100, dtype not in ("fp32", "fp64")
    low = peaks.get("bf16") or peaks.get("fp16") or peak
    attention_peak = low if dtype == "fp8" else peak
    multicast, gain = _MULTICAST.get(gpu.architecture, (0, 1.0)) if cluster.intra else (0, 1.0)
    network = cluster.inter.bandwidth if cluster.inter else _INTER_LINK
    if cluster.nics_per_node:
        network *= cluster.nics_per_node / cluster.gpus_per_node
    return Machine(
        matmul=achievable * given.matmul,
        attention=attention_peak * attention_share(run, gpu.architecture) * given.attention,
        bandwidth=(gpu.achievable_bandwidth / _SCALED if gpu.achievable_bandwidth else gpu.bandwidth) * given.bandwidth,
        fabric=(cluster.intra.bandwidth if cluster.intra else _HOST_LINK) * given.fabric,
        meshed=cluster.intra is not None and cluster.intra.topology == "mesh",
        multicast=multicast,
        multicast_gain=gain,
        network=network * given.network,
        gpus_per_node=cluster.gpus_per_node,
        sms=sms,
        architecture=gpu.architecture,
        tensor_cores=tensor_cores,
        fill=_FILL * min(peak / sms / _FILL_RATE, 1.0) if tensor_cores else _PLAIN_FILL,
        peak=peak,
        host_link=host_rate(gpu),
        operator=given.host * _HOST.get(gpu.architecture, 1.0),
        network_latency=given.network_latency + ((cluster.inter.latency or 0.0) if cluster.inter else 0.0),
        coefficients=given,
    )
