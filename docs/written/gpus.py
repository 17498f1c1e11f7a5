"""The table of the GPUs, and a page for each."""

from __future__ import annotations

import importlib
from typing import Any

from written import listed, table


def pages() -> dict[str, str]:
    """Return the index, by maker and architecture, and what ``preflight explain`` prints of each."""
    hardware = importlib.import_module("preflight.catalog.hardware")
    documents = importlib.import_module("preflight.cli.parts.documents")
    gpu_pages = importlib.import_module("preflight.cli.parts.gpu_pages")
    gpus = listed("gpus")
    index = [
        "# GPUs\n\nWritten by `make docs` from the catalog.\n"
        "Memory is what a driver reports, in GiB; peaks are dense, in TFLOP/s.\n"
        "An empty cell is what a GPU lacks, or what nobody was found to publish.\n"
        "The page of a GPU says where each number was read; `preflight explain NAME` prints it.\n"
        "How to add one: [the catalog](../../guides/catalog.md).\n"
        f"There are {len(gpus)}.\n"
    ]
    for vendor, architecture in _families(gpus):
        rows: list[tuple[object, ...]] = [
            (
                f"[`{gpu['name']}`]({gpu['name']}.md)",
                gpu["title"],
                gpu["memory_gib"],
                gpu["bandwidth_gb_per_s"],
                *(gpu[f"{dtype}_tflops"] for dtype in ("bf16", "fp16", "fp8")),
            )
            for gpu in gpus
            if (gpu["vendor"], gpu["architecture"]) == (vendor, architecture)
        ]
        head = ("name", "GPU", "memory", "bandwidth (GB/s)", "bf16", "fp16", "fp8")
        index.append(f"## {vendor.upper()}: {architecture}\n\n" + table(head, rows))
    found = {
        f"gpus/{gpu['name']}.md": documents.markdown(gpu_pages.gpu_document(hardware.load_gpu(gpu["name"])))
        for gpu in gpus
    }
    return {"gpus/README.md": "\n".join(index), **found}


def _families(gpus: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return maker and architecture of all GPUs, those of one maker together, the newest architecture first."""
    hardware = importlib.import_module("preflight.catalog.hardware")
    loaded = [hardware.load_gpu(gpu["name"]) for gpu in gpus]
    newest = sorted(
        loaded, key=lambda gpu: (gpu.vendor, gpu.compute_capability or (0, 0), gpu.architecture), reverse=True
    )
    return list(dict.fromkeys((gpu.vendor, gpu.architecture) for gpu in newest))
