"""Shard more, or less, over the data-parallel ranks."""

from __future__ import annotations

import msgspec

from preflight.plan.changes import Change, layout_of
from preflight.plan.request import Request

_WORDS = {
    0: "replicated states", 1: "sharded optimizer states (ZeRO 1)", 2: "sharded gradients too (ZeRO 2)",
    3: "fully sharded (FSDP)",
}  # fmt: skip


def options(request: Request) -> list[Change]:
    """Return the other stages that make sense for the layout: no full sharding beside a pipeline."""
    now = layout_of(request)
    ranks = now.dp_replicate * now.dp_shard
    if ranks * now.cp == 1:
        return []
    found = []
    for stage in (0, 1, 3):
        if stage == now.zero_stage or (stage == 3 and now.pp > 1):
            continue
        shard, replicate = (ranks, 1) if stage else (1, ranks)
        framework = "fsdp2" if stage == 3 else ("megatron" if stage or now.tp * now.pp > 1 else "ddp")
        parallel = msgspec.structs.replace(
            now, dp_shard=shard, dp_replicate=replicate, zero_stage=stage, framework=framework
        )
        title = f"{_WORDS[now.zero_stage]} -> {_WORDS[stage]}"
        found.append(Change(key="zero", title=title, run=request.run, parallel=parallel))
    return found
