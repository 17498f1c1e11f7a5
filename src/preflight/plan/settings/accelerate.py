"""The YAML file of Hugging Face Accelerate."""

from __future__ import annotations

from typing import Any

import yaml

from preflight.plan.request import Request
from preflight.plan.settings import accumulation
from preflight.vocabulary.plan import Candidate

TITLE = "Accelerate: accelerate launch --config_file FILE train.py"
_PRECISIONS = {
    "fp32": "no",
    "autocast-bf16": "bf16",
    "autocast-fp16": "fp16",
    "bf16": "bf16",
    "fp16": "fp16",
    "fp8": "fp8",
}


def settings(request: Request, candidate: Candidate) -> str | None:
    """Return the file, or None for layouts beyond data parallelism with or without full sharding."""
    run, parallel, cluster = candidate.run, candidate.parallel, request.cluster
    if parallel.tp * parallel.pp * parallel.cp * parallel.ep > 1 or parallel.zero_stage in (1, 2):
        return None
    if run.precision not in _PRECISIONS or run.recompute in ("op", "selective") or run.recompute_layers:
        return None
    if run.offload not in (("none", "parameters") if parallel.zero_stage == 3 else ("none",)):
        return None
    sharded = parallel.zero_stage == 3
    kind = "FSDP" if sharded else "MULTI_GPU" if cluster.num_gpus > 1 else "NO"
    content: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": kind,
        "mixed_precision": _PRECISIONS[run.precision],
        "num_machines": cluster.nodes,
        "num_processes": cluster.num_gpus,
        "gradient_accumulation_steps": accumulation(candidate),
        "machine_rank": 0,
        "main_training_function": "main",
    }
    if sharded:
        content["fsdp_config"] = {
            "fsdp_version": 2,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_reshard_after_forward": True,
            "fsdp_activation_checkpointing": run.recompute == "full",
            "fsdp_offload_params": run.offload == "parameters",
            "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        }
        if parallel.dp_replicate > 1:
            content["parallelism_config"] = {
                "parallelism_config_dp_replicate_size": parallel.dp_replicate,
                "parallelism_config_dp_shard_size": parallel.dp_shard,
            }
    head = f"# micro-batch {run.micro_batch} per GPU, global batch {run.global_batch}\n"
    return head + yaml.safe_dump(content, sort_keys=False)


def read(text: str) -> dict[str, dict[str, Any]]:
    """Return the layout and the run that a file stands for."""
    content = yaml.safe_load(text)
    gpus, sharded = content["num_processes"], content["distributed_type"] == "FSDP"
    spread = content.get("parallelism_config", {})
    replicate = spread.get("parallelism_config_dp_replicate_size", 1 if sharded else gpus)
    fsdp = content.get("fsdp_config", {})
    return {
        "parallel": {
            "zero_stage": 3 if sharded else 0, "dp_replicate": replicate, "dp_shard": gpus // replicate if sharded else 1,
        },
        "run": {
            **({"recompute": "full"} if fsdp.get("fsdp_activation_checkpointing") else {}),
            "offload": "parameters" if fsdp.get("fsdp_offload_params") else "none",
        },
    }  # fmt: skip
