"""The YAML file of Hugging Face Accelerate."""

from __future__ import annotations

from typing import Any

import yaml

from preflight.plan.request import Request
from preflight.plan.settings import accumulation
from preflight.plan.settings_reason import CannotSay
from preflight.vocabulary.plan import Candidate

TITLE = "Accelerate: accelerate launch --config_file FILE train.py"
# The loop is the user's own: batches, loss and optimizer stand there, as the first line of the file says.
ASIDE = (
    "micro_batch", "global_batch", "sequence_length", "optimizer", "optimizer_momentum", "attention", "cross_entropy",
    "cross_entropy_chunks", "clipping", "finetune", "lora_rank", "lora_targets", "lora_dropout", "double_quantization",
    "quantized_head", "gradient_as_bucket_view", "deterministic", "ema",
)  # fmt: skip
# With replicated weights mixed_precision is autocast; with FSDP2 it is the policy of the shards.
_REPLICATED = {"fp32": "no", "autocast-bf16": "bf16", "autocast-fp16": "fp16"}
_SHARDED = {"fp32": "no", "bf16": "bf16", "fp16": "fp16", "fp8": "fp8"}


def write(request: Request, candidate: Candidate) -> str:
    """Return the file.

    Raises:
        CannotSay: Layouts beyond data parallelism with or without full sharding, other frameworks, recomputation in part.
    """
    run, parallel, cluster = candidate.run, candidate.parallel, request.cluster
    _check(candidate)
    sharded = parallel.zero_stage == 3
    content: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "FSDP" if sharded else "MULTI_GPU" if cluster.num_gpus > 1 else "NO",
        "mixed_precision": (_SHARDED if sharded else _REPLICATED)[run.precision],
        "num_machines": cluster.nodes,
        "num_processes": cluster.num_gpus,
        "gradient_accumulation_steps": accumulation(candidate),
        "machine_rank": 0,
        "main_training_function": "main",
    }
    if run.stack == "compile":
        content["dynamo_config"] = {"dynamo_backend": "INDUCTOR", "dynamo_use_regional_compilation": True}
    if sharded:
        content["fsdp_config"] = {
            "fsdp_version": 1 if parallel.framework == "fsdp1" else 2,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_reshard_after_forward": parallel.reshard,
            "fsdp_activation_checkpointing": run.recompute == "full",
            "fsdp_offload_params": run.offload == "parameters",
            "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        }
        if parallel.dp_replicate > 1:
            content["parallelism_config"] = {
                "parallelism_config_dp_replicate_size": parallel.dp_replicate,
                "parallelism_config_dp_shard_size": parallel.dp_shard,
            }
    return _by_the_code(candidate) + yaml.safe_dump(content, sort_keys=False)


def _check(candidate: Candidate) -> None:
    """Raise for what the file cannot say."""
    run, parallel = candidate.run, candidate.parallel
    if parallel.tp * parallel.pp * parallel.cp * parallel.ep > 1 or parallel.zero_stage in (1, 2):
        raise CannotSay("its file is for replicated or fully sharded data parallelism")
    if parallel.framework not in (None, "ddp", "fsdp1", "fsdp2"):
        raise CannotSay(f"the layout was planned for {parallel.framework}")
    known = _SHARDED if parallel.zero_stage == 3 else _REPLICATED
    if run.precision not in known:
        raise CannotSay(
            f"with {'FSDP' if parallel.zero_stage else 'replicated weights'} it runs {', '.join(known)}, not {run.precision}"
        )


def _by_the_code(candidate: Candidate) -> str:
    """Return the comment with what the training code sets."""
    run = candidate.run
    parts = [f"micro-batch {run.micro_batch} per GPU, global batch {run.global_batch}", str(run.optimizer)]
    parts += [f"{run.attention} attention"] + (
        [f"{run.cross_entropy} cross entropy"] if run.cross_entropy != "eager" else []
    )
    parts += [run.finetune] if run.finetune != "full" else []
    parts += ["gradient clipping"] if run.clipping else []
    return f"# set by the training code: {', '.join(parts)}\n"


def read(text: str) -> dict[str, dict[str, Any]]:
    """Return the layout and the run that a file stands for."""
    content = yaml.safe_load(text)
    gpus, sharded = content["num_processes"], content["distributed_type"] == "FSDP"
    spread = content.get("parallelism_config", {})
    replicate = spread.get("parallelism_config_dp_replicate_size", 1 if sharded else gpus)
    fsdp = content.get("fsdp_config", {})
    kinds = {word: kind for kind, word in (_SHARDED if sharded else _REPLICATED).items()}
    return {
        "parallel": {
            "zero_stage": 3 if sharded else 0, "dp_replicate": replicate, "dp_shard": gpus // replicate if sharded else 1,
            "reshard": fsdp.get("fsdp_reshard_after_forward", True),
        },
        "run": {
            "precision": kinds[content["mixed_precision"]],
            "recompute": "full" if fsdp.get("fsdp_activation_checkpointing") else "none",
            "offload": "parameters" if fsdp.get("fsdp_offload_params") else "none",
            "stack": "compile" if "dynamo_config" in content else "eager",
        },
    }  # fmt: skip
