"""As many GPUs are visible as processes will be started."""

from __future__ import annotations

from preflight.investigate.checklist.checks import Seen, printed


def check(count: int) -> Seen:
    """Count what nvidia-smi lists."""
    text = printed("nvidia-smi", "-L")
    if text is None:
        return Seen("unknown", "nvidia-smi is not there or fails")
    seen = sum(line.startswith("GPU ") for line in text.splitlines())
    return Seen("pass" if seen >= count else "fail", f"{seen} GPUs are visible, {count} are needed")
