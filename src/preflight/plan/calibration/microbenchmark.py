"""A two-minute measurement of one GPU, to be run where it is: ``python microbenchmark.py -o readings.json``.

The file stands alone: it needs torch with CUDA or ROCm and nothing of Preflight, so that it can be copied to the machine.
What it writes is read by ``preflight plan calibrate readings.json -o calibration.json``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

SCHEMA = "preflight.microbenchmark/1"
PRODUCTS = ((4096, 4096, 4096), (8192, 8192, 8192), (8192, 4096, 14336), (8192, 28672, 8192), (16384, 8192, 3072))
ATTENTION = ((1, 32, 4096, 128), (4, 16, 2048, 128), (1, 32, 8192, 64))


def timed(torch: Any, call: Callable[[], Any], least: float = 0.3) -> float:
    """Return the median seconds of a call on the GPU, after a warm-up, over at least ``least`` seconds."""
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    spent: list[float] = []
    begin = time.perf_counter()
    while time.perf_counter() - begin < least or len(spent) < 10:
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        call()
        last.record()
        torch.cuda.synchronize()
        spent.append(first.elapsed_time(last) / 1e3)
    return statistics.median(spent)


def products(torch: Any, name: str, dtype: Any) -> list[dict[str, Any]]:
    """Measure matrix products as a linear layer takes them."""
    found = []
    for rows, columns, inner in PRODUCTS:
        left = torch.randn(rows, inner, device="cuda", dtype=dtype)
        right = torch.randn(columns, inner, device="cuda", dtype=dtype)
        seconds = timed(torch, lambda left=left, right=right: left @ right.t())  # type: ignore[misc]
        found.append(
            {"kind": "matmul", "dtype": name, "rows": rows, "columns": columns, "inner": inner, "seconds": seconds}
        )
    return found


def attention(torch: Any, name: str, dtype: Any) -> list[dict[str, Any]]:
    """Measure causal scaled-dot-product attention, forward."""
    found, run = [], torch.nn.functional.scaled_dot_product_attention
    for samples, heads, length, width in ATTENTION:
        parts = [torch.randn(samples, heads, length, width, device="cuda", dtype=dtype) for _ in range(3)]
        seconds = timed(torch, lambda parts=parts: run(*parts, is_causal=True))  # type: ignore[misc]
        shape = {"samples": samples, "heads": heads, "length": length, "head_dim": width}
        found.append({"kind": "attention", "dtype": name, "seconds": seconds, **shape})
    return found


def copies(torch: Any) -> list[dict[str, Any]]:
    """Measure how quickly memory is read and written."""
    found = []
    for mebibytes in (256, 1024):
        source = torch.empty(mebibytes * 2**20 // 4, device="cuda", dtype=torch.float32)
        target = torch.empty_like(source)
        seconds = timed(torch, lambda source=source, target=target: target.copy_(source))  # type: ignore[misc]
        found.append({"kind": "copy", "dtype": "fp32", "bytes": 2.0 * mebibytes * 2**20, "seconds": seconds})
    return found


def launches(torch: Any) -> list[dict[str, Any]]:
    """Measure what the host needs for an operator: many small ones, which the GPU finishes sooner than they come."""
    one = torch.ones(8, device="cuda", requires_grad=True)
    count = 2000
    spent = []
    for _ in range(5):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            torch.mul(one, 1.0)
        torch.cuda.synchronize()
        spent.append((time.perf_counter() - begin) / count)
    return [{"kind": "launch", "dtype": "fp32", "seconds": statistics.median(spent)}]


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", default="readings.json", help="the file to write")
    output = parser.parse_args().output
    try:
        import torch
    except ImportError:
        print("error: torch is not installed for this Python", file=sys.stderr)
        return 2
    if not torch.cuda.is_available():
        print("error: torch sees no GPU here", file=sys.stderr)
        return 2
    name, dtype = ("bf16", torch.bfloat16) if torch.cuda.is_bf16_supported() else ("fp16", torch.float16)
    kernels = [*products(torch, name, dtype), *attention(torch, name, dtype), *copies(torch), *launches(torch)]
    answer = {
        "schema": SCHEMA, "gpu": torch.cuda.get_device_name(0), "torch": str(torch.__version__), "kernels": kernels,
    }  # fmt: skip
    with open(output, "w", encoding="utf-8") as stream:
        json.dump(answer, stream, indent=1)
    print(f"{len(kernels)} readings of {answer['gpu']} in {output}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
