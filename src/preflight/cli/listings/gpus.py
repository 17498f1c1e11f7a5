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


def rows(catalog: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Every GPU, by name, those of the user's catalog too. A peak that the GPU does not have is None."""
    from preflight.catalog.hardware import gpu_names, load_gpu

    found: list[dict[str, Any]] = []
    for name in gpu_names(catalog):
        gpu = load_gpu(name, catalog)
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
