"""What a snapshot is asked for."""

from __future__ import annotations

import msgspec


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What to look at.

    Attributes:
        python: The interpreter that trains; its torch is asked.
        checkpoints: The folder that checkpoints are written to, if it is to be tried.
        checkpoint_bytes: What a checkpoint takes, where that is known.
        seconds: Deadline for each program that is asked.
    """

    python: str
    checkpoints: str | None = None
    checkpoint_bytes: int | None = None
    seconds: float = 20.0
