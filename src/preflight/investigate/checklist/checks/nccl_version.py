"""The NCCL of the training's PyTorch is new enough."""

from __future__ import annotations

from preflight.investigate.checklist.checks import Seen, printed


def check(least: str, python: str = "python") -> Seen:
    """Ask the Python that trains."""
    text = printed(python, "-c", "import torch; print('.'.join(map(str, torch.cuda.nccl.version())))", seconds=120.0)
    if text is None or not text.strip():
        return Seen("unknown", f"{python} has no PyTorch with NCCL")
    have = text.strip()
    return Seen("pass" if _numbers(have) >= _numbers(least) else "fail", f"NCCL {have}, {least} is needed")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
