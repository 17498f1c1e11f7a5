"""The GPUs of the catalog: what a driver reports as memory, bandwidth, dense peaks."""

from __future__ import annotations

from typing import Any

COLUMNS = (
    "name",
    "title",
    "vendor",
    "architecture",
    "memory_gib",
    "bandwidth_gb_per_s",
    "bf16_tflops",
    "fp16_tflops",
    "fp8_tflops",
)
IN_TEXT = ("name", "title", "memory_gib", "bandwidth_gb_per_s", "bf16_tflops")
EXACT = ("vendor", "architecture")


def rows() -> list[dict[str, Any]]:
    """Every GPU, by name. A peak that the GPU does not have is None."""
    from preflight.catalog.hardware import gpu_names, load_gpu

    found: list[dict[str, Any]] = []
    for gpu in map(load_gpu, gpu_names()):
        row: dict[str, Any] = {
            "name": gpu.name,
            "title": gpu.title,
            "vendor": gpu.vendor,
            "architecture": gpu.architecture,
        }
        row["memory_gib"] = round(gpu.memory_bytes / 2**30, 2)
        row["bandwidth_gb_per_s"] = round(gpu.bandwidth / 1e9, 1)
        for dtype in ("bf16", "fp16", "fp8"):
            peak = gpu.peak_flops.get(dtype)
            row[f"{dtype}_tflops"] = None if peak is None else round(peak / 1e12, 1)
        found.append(row)
    return found
