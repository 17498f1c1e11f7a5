"""Memory: fill a part of it with patterns and read them back; bits that do not stay are a broken device."""

from __future__ import annotations

from typing import Any

from preflight.investigate.probes.timed import Row, row, samples_of

TITLE = "fill memory with patterns and verify; bandwidth of a copy"
TOGETHER = False
BLOCK = 64 << 20
PATTERNS = (0x5A5A5A5A5A5A5A5A, -0x5A5A5A5A5A5A5A5B, 0)


def operations(settings: dict[str, Any]) -> list[str]:
    """Return what is measured."""
    return ["verify", "copy"]


def measure(operation: str, settings: dict[str, Any]) -> list[Row]:
    """Measure one of them."""
    import torch

    device = torch.device(settings["device"])
    finish = torch.cuda.synchronize if device.type == "cuda" else None
    if operation == "copy":
        source = torch.zeros(min(_room(settings, device) // 2, BLOCK) // 8, dtype=torch.int64, device=device)
        target = torch.empty_like(source)
        size = source.numel() * 8 * 2  # read and written
        taken = samples_of(lambda: target.copy_(source), settings, finish)
        return [row("copy", "byte/s", "larger", [size / one for one in taken], bytes=size // 2)]
    return [_verify(settings, device)]


def _room(settings: dict[str, Any], device: Any) -> int:
    """Return how much to fill: what was asked for, else 80 % of what a card has free, 256 MiB of a host."""
    import torch

    if settings.get("bytes"):
        return int(settings["bytes"])
    return int(torch.cuda.mem_get_info(device)[0] * 0.8) if device.type == "cuda" else 256 << 20


def _verify(settings: dict[str, Any], device: Any) -> Row:
    """Fill all blocks, then read all: each word holds its address mixed with a pattern, so that swapped lines are seen."""
    import time

    import torch

    words, block = _room(settings, device) // 8, BLOCK // 8
    blocks = [torch.empty(min(block, words - at), dtype=torch.int64, device=device) for at in range(0, words, block)]
    wrong, times = 0, []
    for pattern in PATTERNS:
        began = time.perf_counter()
        for number, one in enumerate(blocks):
            torch.arange(number * block, number * block + one.numel(), out=one).bitwise_xor_(pattern)
        if settings.get("flip") and pattern == PATTERNS[0]:
            blocks[-1][7] ^= 1 << 33
        for number, one in enumerate(blocks):
            wanted = torch.arange(number * block, number * block + one.numel(), device=device).bitwise_xor_(pattern)
            wrong += int((one != wanted).sum())
        times.append(time.perf_counter() - began)
    rates = [words * 8 * 3 / taken for taken in times]  # written, read, compared with as much again
    return row("verify", "byte/s", "larger", rates, bytes=words * 8, wrong=wrong)
