"""The TOML file of torchtitan."""

from __future__ import annotations

import sys
from typing import Any

from preflight.plan.request import Request
from preflight.vocabulary.plan import Candidate

TITLE = "torchtitan: train.toml"
_RECOMPUTE = {"none": "none", "full": "full", "op": "selective"}
_OPTIMIZERS = {"adamw": "AdamW", "adam": "Adam"}


def settings(request: Request, candidate: Candidate) -> str | None:
    """Return the file, or None for what torchtitan does not run: stages 1 and 2, other optimizers, other stacks."""
    run, parallel = candidate.run, candidate.parallel
    if request.model.family not in ("transformer_decoder", "moe") or parallel.zero_stage in (1, 2):
        return None
    if run.recompute not in _RECOMPUTE or run.optimizer not in _OPTIMIZERS or run.finetune != "full":
        return None
    if run.precision not in ("bf16", "fp8", "fp32") or run.offload != "none" or run.recompute_layers:
        return None
    kind = f'"{_RECOMPUTE[run.recompute]}"'
    lines = [
        "[training]",
        f"local_batch_size = {_local(candidate)}",
        f"global_batch_size = {run.global_batch}",
        f"seq_len = {run.sequence_length}",
        f'mixed_precision_param = "{"float32" if run.precision == "fp32" else "bfloat16"}"',
        'mixed_precision_reduce = "float32"',
        "",
        "[optimizer]",
        f'name = "{_OPTIMIZERS[run.optimizer]}"',
        "",
        "[parallelism]",
        f"data_parallel_replicate_degree = {parallel.dp_replicate}",
        f"data_parallel_shard_degree = {parallel.dp_shard}",
        f"tensor_parallel_degree = {parallel.tp}",
        f"pipeline_parallel_degree = {parallel.pp}",
        f"context_parallel_degree = {parallel.cp}",
        f"expert_parallel_degree = {parallel.ep}",
    ]
    if parallel.pp > 1:
        schedule = "Interleaved1F1B" if parallel.vp > 1 else "1F1B"
        lines += [
            f'pipeline_parallel_schedule = "{schedule}"',
            f"pipeline_parallel_microbatch_size = {run.micro_batch}",
        ]
        if parallel.vp > 1:
            layers = (request.model.layers or 0) // (parallel.pp * parallel.vp)
            lines += [f"pipeline_parallel_layers_per_stage = {layers}"]
    lines += ["", "[activation_checkpoint]", f"mode = {kind}"]
    if run.recompute == "op":
        lines += ['selective_ac_option = "op"']
    lines += ["", "[compile]", f"enable = {str(run.stack == 'compile').lower()}"]
    if run.precision == "fp8":
        lines += ["", "[model]", 'converters = ["float8"]']
    return "\n".join(lines) + "\n"


def _local(candidate: Candidate) -> int:
    """Return the samples of a rank between two steps of its schedule: a pipeline takes all micro-batches at once."""
    run, parallel = candidate.run, candidate.parallel
    if parallel.pp > 1:
        return (run.global_batch or 0) // (parallel.dp_replicate * parallel.dp_shard)
    return run.micro_batch or 1


def read(text: str) -> dict[str, dict[str, Any]]:
    """Return the layout and the run that a file stands for."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    content = tomllib.loads(text)
    spread, training = content["parallelism"], content["training"]
    kinds = {word: kind for kind, word in _RECOMPUTE.items()}
    low = "fp8" if "float8" in content.get("model", {}).get("converters", []) else "bf16"
    return {
        "parallel": {
            "dp_replicate": spread["data_parallel_replicate_degree"], "dp_shard": spread["data_parallel_shard_degree"],
            "tp": spread["tensor_parallel_degree"], "pp": spread["pipeline_parallel_degree"],
            "cp": spread["context_parallel_degree"], "ep": spread["expert_parallel_degree"],
        },
        "run": {
            "global_batch": training["global_batch_size"], "sequence_length": training["seq_len"],
            "micro_batch": spread.get("pipeline_parallel_microbatch_size", training["local_batch_size"]),
            "precision": "fp32" if training["mixed_precision_param"] == "float32" else low,
            "recompute": kinds[content["activation_checkpoint"]["mode"]],
        },
    }  # fmt: skip
