"""Every card has so much memory free."""

from __future__ import annotations

from preflight.investigate.checklist.checks import Seen, printed


def check(least_gb: float) -> Seen:
    """Ask nvidia-smi; gigabytes are 1e9 bytes."""
    text = printed("nvidia-smi", "--query-gpu=index,memory.free", "--format=csv,noheader,nounits")
    if text is None:
        return Seen("unknown", "nvidia-smi is not there or fails")
    free = {}
    for line in text.splitlines():
        index, _, mebibytes = line.partition(",")
        try:
            free[index.strip()] = float(mebibytes) * 2**20 / 1e9
        except ValueError:
            continue
    if not free:
        return Seen("unknown", "nvidia-smi tells no free memory")
    short = [f"GPU {index}: {gb:.1f} GB" for index, gb in free.items() if gb < least_gb]
    if short:
        return Seen("fail", f"{least_gb:g} GB are needed: {', '.join(short)}")
    return Seen("pass", f"at least {min(free.values()):.1f} GB are free on each of {len(free)} GPUs")
