"""How long a step takes on a GPU: a roofline for every operator, kernels in a queue that the host fills.

What the rates are, and where they were read:

- products: the largest rate that was measured on the GPU (catalog), else the share of the peak that GPUs of its
  generation reach for which both are known (A100 0.87, H100 0.80, B200 0.78); tiles and waves as in NVIDIA's "Matrix Multiplication
  Background User's Guide" (DU-09799-001): a product is cut into tiles, and the last wave over the multiprocessors costs
  as much as a full one; a smaller tile loads more bytes for each FLOP, by which its rate falls;
- products whose rows do not begin at multiples of 16 bytes (50,257 words): ``cost.alignment``;
- convolutions: cuDNN reaches 0.1 to 0.7 of the rate of products forward and 0.05 to 0.5 backward on an H200, the more the
  wider the channels; without channels_last it also turns what it is given and what it makes (benchmarks/gpu/rates.toml);
- norms: what they are given is read once for the statistics and once to be normalised (layer norm moved its bytes at 0.6 of
  the bandwidth there);
- attention: FlashAttention-2 reaches 0.5 to 0.73 of the peak on A100 (arXiv 2307.08691) and 0.35 to 0.40 on H100 (arXiv 2407.08608);
- all others: bytes over the memory bandwidth, of which STREAM-like kernels reach 0.9 on NVIDIA's GPUs, and those of a step
  0.85 in the middle of 27 steps on an H200 and an H100 (benchmarks/gpu/measured.md, measured_h100.md);
- host: 5 to 25 us of work before a kernel runs (jiahuanglin.xyz "From PyTorch op to kernel launch"); 7 to 18 us forward and
  14 us backward beside an H200 in a virtual machine (benchmarks/gpu/rates.toml), and modules and optimizers of Python on
  top: steps that wait for the host took 22 to 26 us for each operator, views included, with other programs beside them; a launch alone is 4 to 5 us, and a kernel that does nothing keeps the GPU busy for about 2 us;
- what ``torch.compile`` fuses: an operator of its own writes its result and the next one reads it, one of many in a kernel
  mostly does neither; a step of a compiled GPT took 35.9 ms on an H100 (benchmarks/gpu/measured_h100.toml);
- collectives: a ring of 2 (n - 1) / n bytes for each byte of an all-reduce and half of it for gathering and scattering
  (nccl-tests PERFORMANCE.md), at 0.75 of the link; nothing is said of links between nodes.
"""

from __future__ import annotations

import msgspec

from preflight.cost.alignment import aligned_share
from preflight.cost.machine import ATTENTION, reached
from preflight.vocabulary.hardware import Gpu, Link
from preflight.vocabulary.quantity import Interval
from preflight.vocabulary.work import Kind, Work

_TILES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64))
_STEP_PHASES = ("init", "forward", "recompute", "backward", "optimizer")


class Rates(msgspec.Struct, frozen=True):
    """One set of assumptions; the three sets give the ends and the middle of an interval.

    Attributes:
        products: Share of a GPU's achievable rate, never above its peak. bandwidth: Share of its memory bandwidth. link: Share of its link.
        floor: Seconds that a kernel takes at least. operator: Seconds of the host for an operator. view: The same for a
            view. launch: The same for each further kernel of an operator.
        convolution: Share of the rate of products that convolutions reach. backwards: The same of their backward pass.
        turned: How often the bytes of a convolution are moved.
        overlap: Share of collectives that runs beside the kernels.
        fused: Share of an operator's own time and bytes that is left where a compiler makes one kernel of many.
    """

    products: float
    bandwidth: float
    link: float
    floor: float
    operator: float
    view: float
    launch: float
    convolution: float
    backwards: float
    turned: float
    overlap: float
    fused: float


LOW = Rates(1.15, 0.95, 0.85, 1.5e-6, 5e-6, 1e-6, 3e-6, 0.8, 0.6, 1.0, 1.0, 0.15)
MID = Rates(0.8, 0.85, 0.75, 2e-6, 20e-6, 6e-6, 4.5e-6, 0.45, 0.3, 2.0, 0.5, 0.35)
HIGH = Rates(0.65, 0.75, 0.60, 4e-6, 40e-6, 15e-6, 9e-6, 0.2, 0.08, 4.0, 0.0, 0.8)
_NORM_PASSES = 1.5


class Span(msgspec.Struct, frozen=True):
    """When an operator of the step runs on the GPU, seconds from the step's start."""

    kind: int
    start: float
    seconds: float


class Step(msgspec.Struct, frozen=True):
    """A step under one set of assumptions.

    Attributes:
        seconds: Its length. busy: Seconds of kernels by phase. communication: Seconds of collectives that nothing hides.
        spans: Its operators, where they were asked for.
    """

    seconds: float
    busy: dict[str, float]
    communication: float
    spans: tuple[Span, ...]


class StepTime(msgspec.Struct, frozen=True):
    """The time of a step.

    Attributes:
        seconds: As an interval. mid: The middle, with every operator's place in time.
        flop: Operations of the model: products, convolutions and attention without what is recomputed.
        hardware_flop: The same with what is recomputed.
        dtype: The type in which most of them are done.
    """

    seconds: Interval
    mid: Step
    flop: float
    hardware_flop: float
    dtype: str
    durations: tuple[float, ...]


def step_time(work: Work, gpu: Gpu, link: Link | None = None) -> StepTime | None:
    """Estimate the time of a step.

    Args:
        work: Its operators.
        gpu: The GPU.
        link: What its ranks talk over; without it, collectives are not counted.

    Returns:
        None where the step has no operator, or the GPU's peak is not known.
    """
    if not work.order or not gpu.peak_flops:
        return None
    low, mid, high = (_run(work, gpu, link, rates) for rates in (LOW, MID, HIGH))
    by_dtype: dict[str, float] = {}
    model = hardware = 0.0
    for at in work.order:
        kind = work.kinds[at]
        if kind.flop and kind.phase in _STEP_PHASES:
            hardware += kind.flop
            model += kind.flop if kind.phase != "recompute" else 0.0
            by_dtype[kind.dtype] = by_dtype.get(kind.dtype, 0.0) + kind.flop
    dtype = max(by_dtype, key=lambda name: by_dtype[name]) if by_dtype else ""
    durations = tuple(seconds_of(kind, gpu, MID) for kind in work.kinds)
    return StepTime(Interval(low.seconds, mid.seconds, high.seconds), mid, model, hardware, dtype, durations)


def _run(work: Work, gpu: Gpu, link: Link | None, rates: Rates) -> Step:
    """Let the host fill the queue and the GPU empty it; collectives run beside as far as they may."""
    durations = [seconds_of(kind, gpu, rates) for kind in work.kinds]
    costs = [_host(kind, rates) for kind in work.kinds]
    host = device = side = exposed = 0.0
    busy: dict[str, float] = {}
    spans: list[Span] = []
    for at in work.order:
        kind = work.kinds[at]
        if kind.phase not in _STEP_PHASES:
            continue
        host += costs[at]
        if kind.ranks is not None:
            seconds = _collective(kind, link, rates)
            begin = max(side, host, device)
            side = begin + seconds * rates.overlap
            device = max(device, host) + seconds * (1 - rates.overlap)
            exposed += seconds * (1 - rates.overlap)
            spans.append(Span(at, begin, seconds))
            continue
        if kind.phase == "optimizer" and side > device:
            exposed += side - device
            device = side
        if durations[at]:
            start = max(device, host)
            spans.append(Span(at, start, durations[at]))
            device = start + durations[at]
            busy[kind.phase] = busy.get(kind.phase, 0.0) + durations[at]
        if kind.waits:
            host = max(host, device)
    return Step(max(device, host, side), busy, exposed, tuple(spans))


def _host(kind: Kind, rates: Rates) -> float:
    if kind.kernels == 0:
        return rates.view
    return (rates.operator + (kind.kernels - 1) * rates.launch) * (rates.fused if kind.fused else 1.0)


def seconds_of(kind: Kind, gpu: Gpu, rates: Rates) -> float:
    """Return the time of an operator's kernels: the longer of arithmetic and memory, and never less than their floor."""
    if kind.kernels == 0 or kind.ranks is not None:
        return 0.0
    memory = kind.bytes / (gpu.bandwidth * rates.bandwidth)
    convolution = "convolution" in kind.operator
    if convolution:
        memory *= rates.turned
    elif "_norm" in kind.operator and kind.operator.startswith(("native_", "_fused_rms", "cudnn_", "miopen_")):
        memory *= _NORM_PASSES
    arithmetic = 0.0
    if kind.flop:
        rate = min(achievable(gpu, kind.dtype) * rates.products, peak(gpu, kind.dtype))
        if "attention" in kind.operator:
            share = ATTENTION["flash"].get(gpu.architecture, 0.4)
            rate = peak(gpu, kind.dtype) * share * rates.products
            rate *= 0.8 if "backward" in kind.operator else 1.0
        if convolution:
            rate *= rates.backwards if "backward" in kind.operator else rates.convolution
        if kind.product is not None:
            rate *= tile_share(kind.product, gpu.sms or 108) * _aligned(kind.product, kind.dtype, gpu.architecture)
        arithmetic = kind.flop / rate
    return max(memory, arithmetic, kind.kernels * rates.floor) * (rates.fused if kind.fused else 1.0)


def peak(gpu: Gpu, dtype: str) -> float:
    """Return the peak of a type, FLOP per second; a type that is not listed runs at the rate of fp32."""
    short = {"float16": "fp16", "bfloat16": "bf16", "tf32": "tf32", "float64": "fp64", "float32": "fp32"}
    key = "fp8" if dtype.startswith("float8") else short.get(dtype, "fp32")
    return gpu.peak_flops.get(key) or gpu.peak_flops.get("fp32") or min(gpu.peak_flops.values())


def achievable(gpu: Gpu, dtype: str) -> float:
    """Return the rate that products reach, FLOP per second."""
    key = {"float16": "bf16", "bfloat16": "bf16"}.get(dtype, "fp8" if dtype.startswith("float8") else "")
    # fp16 and bf16 run at one rate where both have the same peak.
    same = gpu.peak_flops.get("fp16") == gpu.peak_flops.get("bf16")
    if key in gpu.achievable_flops and (dtype != "float16" or same):
        return gpu.achievable_flops[key]
    return reached(gpu) * peak(gpu, dtype)


def tile_share(product: tuple[int, int, int, int], sms: int) -> float:
    """Return the share of the rate that the shape of a product allows, with the best of the tiles.

    Args:
        product: Batch, rows, columns, depth.
        sms: Number of multiprocessors.
    """
    batch, rows, columns, depth = product
    best = 0.0
    for height, width in _TILES:
        across, down = -(-rows // height), -(-columns // width)
        useful = rows * columns / (across * height * down * width)
        # The depth is split as long as a part is 512 or more and multiprocessors are idle.
        parts = max(1, min(depth // 512, sms // (batch * across * down) or 1))
        tiles = batch * across * down * parts
        wave = tiles / (-(-tiles // sms) * sms)
        traffic = min(1.0, (height * width / (height + width)) / 64)
        best = max(best, useful * wave * traffic)
    return best


def _aligned(product: tuple[int, int, int, int], dtype: str, architecture: str) -> float:
    """Return the share of the rate that the alignment of a product allows; without tensor cores it does not matter."""
    element = {"float16": 2, "bfloat16": 2, "tf32": 4}.get(dtype)
    # What divides every side divides where each row begins, however the factors lie in memory.
    return aligned_share(architecture, element, *product[1:]) if element is not None else 1.0


def _collective(kind: Kind, link: Link | None, rates: Rates) -> float:
    if link is None or kind.ranks is None or kind.ranks < 2:
        return 0.0
    share = (kind.ranks - 1) / kind.ranks * (2 if "reduce" in kind.operator and "scatter" not in kind.operator else 1)
    return max(kind.bytes * share / (link.bandwidth * rates.link), rates.floor)
