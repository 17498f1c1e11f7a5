"""Wishes that contradict each other: a strategy and the degrees beside it."""

from __future__ import annotations

from preflight.errors import UsageError
from preflight.plan.request import Wish

_STAGES = {"zero1": 1, "zero2": 2, "zero3": 3, "fsdp": 3}


def check_wish(wish: Wish, gpus: int) -> None:
    """Raise where a strategy asks for what the degrees rule out.

    Raises:
        UsageError: Two wishes contradict each other.
    """
    strategy, stage = wish.strategy, wish.zero_stage
    for axis in ("tensor_parallel", "pipeline_parallel"):
        degree = getattr(wish, axis)
        if strategy == axis and degree == 1:
            raise UsageError(f"strategy {axis}, but {axis} is 1", f"leave {axis} out, or say data_parallel")
        if strategy == axis and gpus == 1:
            raise UsageError(f"strategy {axis} on one GPU divides nothing", "say how many: --gpus 8 (num_gpus: 8)")
        if strategy == "data_parallel" and (degree or 1) > 1:
            raise UsageError(f"strategy data_parallel, but {axis} is {degree}", "strategy: hybrid has both")
    own = _STAGES.get(strategy or "")
    # FSDP2 may leave the weights whole and shard the rest, which is stage 2.
    if own and stage is not None and stage != own and (strategy, stage) != ("fsdp", 2):
        raise UsageError(f"strategy {strategy} is zero_stage {own}, not {stage}", "say one of the two")
    if stage == 0 and (wish.shard_size or strategy == "hsdp"):
        raise UsageError("sharding groups, but zero_stage 0 shards nothing", "zero_stage: 3, or leave shard_size out")
    _without_ranks(wish)


def _without_ranks(wish: Wish) -> None:
    """Raise where something is said of ranks that there are not."""
    if wish.strategy not in ("pipeline_parallel", "auto") and (wish.pipeline_parallel or 1) == 1:
        if wish.schedule not in (None, "1f1b"):
            raise UsageError(
                f"schedule is {wish.schedule}, but there is one pipeline stage", "pipeline_parallel: 2, or leave it out"
            )
        for name in ("first_layers", "last_layers"):
            if getattr(wish, name) is not None:
                raise UsageError(f"{name} is {getattr(wish, name)}, but there is one pipeline stage", "leave it out")
    split = wish.strategy in ("tensor_parallel", "auto") or (wish.tensor_parallel or 1) > 1
    if wish.sequence_parallel and not split:
        raise UsageError(
            "sequence_parallel divides what tensor_parallel leaves whole, and tensor_parallel is 1",
            "tensor_parallel: 2, or leave it out",
        )
