"""A roll call among the ranks themselves: who answers in time? Nobody waits longer than the deadline for anybody."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from preflight.investigate.liveness.bounded import Bounded

POLL_SECONDS = 0.05


def roll_call(store: Any, rank: int, world_size: int, name: str, deadline: float = 30.0) -> tuple[int, ...]:
    """Answer a roll call and return the ranks that did not answer within the deadline.

    What a barrier would say, without a barrier's waiting: put it before a collective that hangs.

    Args:
        store: A store of torch.distributed that all ranks share, such as that of the default group.
        rank: This rank.
        world_size: How many there are.
        name: Of this roll call; the same on all ranks, and never used twice: ``step-1200``.
        deadline: Seconds to wait for the others.

    Raises:
        StoreSilent: The store itself does not answer.
    """
    bounded = Bounded()
    end = time.monotonic() + deadline
    key = f"preflight/roll/{name}"

    def left() -> float:
        return max(end - time.monotonic(), 0.0) + 1.0

    try:
        bounded.call(lambda: store.add(f"{key}/{rank}", 1), left())
        missing = [other for other in range(world_size) if other != rank]
        while True:
            missing = bounded.call(partial(_unanswered, store, key, missing), left())
            if not missing or time.monotonic() + POLL_SECONDS > end:
                return tuple(missing)
            time.sleep(POLL_SECONDS)
    finally:
        bounded.close()


def _unanswered(store: Any, key: str, ranks: list[int]) -> list[int]:
    return [rank for rank in ranks if not store.add(f"{key}/{rank}", 0)]
