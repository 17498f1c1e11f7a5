"""Coefficients from the file of a micro-benchmark: what one GPU of one's own reaches of the catalog's rates."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from preflight.catalog.hardware import resolve_gpu
from preflight.cost.kernels import flash_seconds, matmul_seconds
from preflight.cost.machine import Coefficients, Machine, machine_of
from preflight.errors import UsageError
from preflight.plan.calibration.prior import PRIORS
from preflight.vocabulary.hardware import Cluster, Gpu
from preflight.vocabulary.run import Attention, Precision, RunSpec

SCHEMA = "preflight.microbenchmark/1"
# How well a kernel that runs alone and warm tells what it reaches inside a training step, as a logarithm.
_TELLS = 0.07


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """One measured kernel.

    Attributes:
        kind: ``matmul``, ``attention`` (forward, causal), ``copy`` or ``launch``.
        seconds: Of one call. dtype: ``bf16``, ``fp16``, ``fp32``, ``tf32``.
        rows, columns, inner: Of a product. bytes: What a copy reads and writes.
        samples, heads, length, head_dim: Of attention.
    """

    kind: str
    seconds: float
    dtype: str = "bf16"
    rows: int = 0
    columns: int = 0
    inner: int = 0
    bytes: float = 0.0
    samples: int = 0
    heads: int = 0
    length: int = 0
    head_dim: int = 0


class Readings(msgspec.Struct, frozen=True, kw_only=True):
    """What a micro-benchmark wrote."""

    schema: str
    gpu: str
    kernels: tuple[Kernel, ...]
    torch: str = ""


def read_readings(data: bytes, name: str) -> Readings:
    """Return the readings of a file.

    Raises:
        UsageError: The file is not one of a micro-benchmark.
    """
    try:
        found = msgspec.json.decode(data, type=Readings)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"{name} is no file of the micro-benchmark: {error}") from None
    if found.schema != SCHEMA:
        raise UsageError(f"{name} has the schema {found.schema!r}", f"this version reads {SCHEMA}")
    return found


def coefficients_from(found: Readings) -> tuple[Gpu, Coefficients]:
    """Return the GPU and the coefficients after the readings, each weighed against what was known before.

    Every coefficient stands in log space: the mean of prior and reading, weighted by the inverse of their variances.

    Raises:
        UsageError: The GPU is not in the catalog.
    """
    gpu = resolve_gpu(found.gpu)
    start = Coefficients()
    ways: dict[str, Callable[[Gpu, list[Kernel]], float | None]] = {
        "matmul": _products, "bandwidth": _copies, "attention": _attention, "host": _launches,
    }  # fmt: skip
    changed: dict[str, float] = {}
    for name, way in ways.items():
        ratio = way(gpu, list(found.kernels))
        if ratio is not None and ratio > 0:
            spread = PRIORS[name].spread
            weight = spread**2 / (spread**2 + _TELLS**2)
            value = getattr(start, name) * math.exp(weight * math.log(ratio))
            most = PRIORS[name].most
            changed[name] = value if most is None else min(value, most)
    return gpu, msgspec.structs.replace(start, **changed)


def _machine(gpu: Gpu, dtype: str, attention: Attention = "flash") -> Machine | None:
    precisions: dict[str, Precision] = {"bf16": "bf16", "fp16": "fp16", "fp32": "fp32", "tf32": "tf32"}
    if dtype not in precisions:
        return None
    return machine_of(Cluster(gpu=gpu), RunSpec(precision=precisions[dtype], attention=attention))


def _median(ratios: list[float]) -> float | None:
    import statistics

    return statistics.median(ratios) if ratios else None


def _products(gpu: Gpu, kernels: list[Kernel]) -> float | None:
    """Return predicted over measured seconds of products large enough for their rate to count."""
    ratios = []
    for kernel in kernels:
        machine = _machine(gpu, kernel.dtype) if kernel.kind == "matmul" else None
        if machine is not None and min(kernel.rows, kernel.columns, kernel.inner) >= 2048:
            ratios.append(matmul_seconds(machine, kernel.rows, kernel.columns, kernel.inner) / kernel.seconds)
    return _median(ratios)


def _copies(gpu: Gpu, kernels: list[Kernel]) -> float | None:
    machine = _machine(gpu, "fp32")
    if machine is None:
        return None
    large = [kernel for kernel in kernels if kernel.kind == "copy" and kernel.bytes >= 2**28]
    return _median([kernel.bytes / machine.bandwidth / kernel.seconds for kernel in large])


def _attention(gpu: Gpu, kernels: list[Kernel]) -> float | None:
    ratios = []
    for kernel in kernels:
        machine = _machine(gpu, kernel.dtype) if kernel.kind == "attention" else None
        if machine is not None:
            # 4 s^2 d FLOP a head, half of them where attention is causal.
            flop = 2.0 * kernel.samples * kernel.heads * kernel.length**2 * kernel.head_dim
            rows = float(kernel.samples * kernel.heads * kernel.length)
            ratios.append(flash_seconds(machine, flop, rows, kernel.length / 2, 64.0) / kernel.seconds)
    return _median(ratios)


def _launches(gpu: Gpu, kernels: list[Kernel]) -> float | None:
    machine = _machine(gpu, "fp32")
    launches = [kernel.seconds for kernel in kernels if kernel.kind == "launch"]
    measured = _median(launches)
    return measured / machine.operator if measured is not None and machine is not None else None
