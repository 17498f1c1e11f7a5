"""A command line and the lines of code that shard a model with PyTorch's own FSDP2."""

from __future__ import annotations

import re
from typing import Any

from preflight.plan.request import Request
from preflight.plan.settings import accumulation
from preflight.vocabulary.plan import Candidate

TITLE = "PyTorch: torchrun and fully_shard"


def settings(request: Request, candidate: Candidate) -> str | None:
    """Return command and code, or None for layouts beyond data parallelism with or without full sharding."""
    run, parallel, cluster = candidate.run, candidate.parallel, request.cluster
    if parallel.tp * parallel.pp * parallel.cp * parallel.ep > 1 or parallel.zero_stage in (1, 2):
        return None
    if run.precision not in ("fp32", "bf16", "pure-bf16", "autocast-bf16") or cluster.num_gpus == 1:
        return None
    if run.offload != "none" or run.recompute in ("op", "selective") or run.recompute_layers:
        return None
    nodes = f" --nnodes {cluster.nodes}" if cluster.nodes > 1 else ""
    lines = [
        f"# torchrun --nproc_per_node {min(cluster.gpus_per_node, cluster.num_gpus)}{nodes} train.py",
        f"MICRO_BATCH = {run.micro_batch}",
        f"ACCUMULATE = {accumulation(candidate)}  # {run.global_batch} samples a step on {cluster.num_gpus} GPUs",
        "",
        "from torch.distributed.device_mesh import init_device_mesh",
    ]
    lines += _sharded(candidate) if parallel.zero_stage == 3 else _replicated()
    if run.recompute == "full":
        lines += [
            "",
            "from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper",
            "# before sharding: for name, block in blocks.named_children(): setattr(blocks, name, checkpoint_wrapper(block))",
        ]
    return "\n".join(lines) + "\n"


def _sharded(candidate: Candidate) -> list[str]:
    run, parallel = candidate.run, candidate.parallel
    names = '("dp_replicate", "dp_shard")' if parallel.dp_replicate > 1 else '("dp_shard",)'
    sizes = (
        f"({parallel.dp_replicate}, {parallel.dp_shard})" if parallel.dp_replicate > 1 else f"({parallel.dp_shard},)"
    )
    policy = "" if run.precision in ("fp32", "pure-bf16") else (
        ", mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)"
    )  # fmt: skip
    return [
        "from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard",
        "",
        f'mesh = init_device_mesh("cuda", {sizes}, mesh_dim_names={names})',
        "for block in blocks:",
        f"    fully_shard(block, mesh=mesh{policy})",
        f"fully_shard(model, mesh=mesh{policy})",
    ]


def _replicated() -> list[str]:
    return [
        "from torch.nn.parallel import DistributedDataParallel",
        "",
        "model = DistributedDataParallel(model, device_ids=[local_rank], gradient_as_bucket_view=True)",
    ]


def read(text: str) -> dict[str, dict[str, Any]]:
    """Return the layout and the run that a text of this form stands for."""

    def number(pattern: str, otherwise: int = 1) -> int:
        found = re.search(pattern, text)
        return int(found[1]) if found else otherwise

    gpus = number(r"--nproc_per_node (\d+)") * number(r"--nnodes (\d+)")
    mesh = re.search(r'init_device_mesh\("cuda", \(([^)]*)\)', text)
    sizes = [int(size) for size in mesh[1].split(",") if size.strip()] if mesh else []
    shard, replicate = (sizes[-1], sizes[0] if len(sizes) > 1 else 1) if sizes else (1, gpus)
    micro = number(r"MICRO_BATCH = (\d+)")
    return {
        "parallel": {"zero_stage": 3 if sizes else 0, "dp_shard": shard, "dp_replicate": replicate},
        "run": {
            "micro_batch": micro, "global_batch": micro * number(r"ACCUMULATE = (\d+)") * gpus,
            "recompute": "full" if "checkpoint_wrapper" in text else "none",
        },
    }  # fmt: skip
