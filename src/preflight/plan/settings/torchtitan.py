"""The TOML file that torchtitan reads up to 0.2.2; later ones are configured by functions in Python."""

from __future__ import annotations

import re
import sys
from typing import Any

from preflight.plan.request import Request
from preflight.plan.settings_reason import CannotSay
from preflight.vocabulary.plan import Candidate

TITLE = "torchtitan up to 0.2.2 (later ones read Python, not TOML): train.toml"
# It clips always, and takes the attention that PyTorch chooses for the length.
ASIDE = ("clipping", "attention", "gradient_as_bucket_view")
_RECOMPUTE = {"none": "none", "full": "full", "op": "selective"}
_OPTIMIZERS = {"adamw": "AdamW", "adam": "Adam"}
_SCHEDULES = {"1f1b": "1F1B", "gpipe": "GPipe"}


def write(request: Request, candidate: Candidate) -> str:
    """Return the file.

    Raises:
        CannotSay: Other families, frameworks, optimizers and layers; ZeRO 1 and 2.
    """
    _check(request, candidate)
    run, parallel = candidate.run, candidate.parallel
    lines = [
        "# for torchtitan up to 0.2.2: later ones read a function in Python that returns a Trainer.Config",
        "[training]",
        f"local_batch_size = {_local(candidate)}",
        f"global_batch_size = {run.global_batch}",
        f"seq_len = {run.sequence_length}",
        f'mixed_precision_param = "{"float32" if run.precision == "fp32" else "bfloat16"}"',
        'mixed_precision_reduce = "float32"',
    ]
    lines += ["enable_cpu_offload = true"] if run.offload == "parameters" else []
    lines += ["", "[optimizer]", f'name = "{_OPTIMIZERS[run.optimizer or ""]}"', "", *_degrees(candidate)]
    lines += _pipeline(request, candidate) if parallel.pp > 1 else []
    lines += ["", *_recomputation(request, candidate)]
    lines += ["", "[compile]", f"enable = {str(run.stack == 'compile').lower()}", 'components = ["model"]']
    if run.precision == "fp8":
        lines += ["", "[model]", 'converters = ["float8"]']
    if run.deterministic:
        lines += ["", "[debug]", "deterministic = true"]
    return "\n".join(lines) + "\n"


def _check(request: Request, candidate: Candidate) -> None:
    """Raise for what torchtitan does not run."""
    run, parallel = candidate.run, candidate.parallel
    if request.model.family not in ("transformer_decoder", "moe"):
        raise CannotSay(f"it trains decoders, not a {request.model.family.replace('_', ' ')}")
    if parallel.framework not in (None, "ddp", "fsdp2"):
        raise CannotSay(f"the layout was planned for {parallel.framework}")
    if parallel.zero_stage in (1, 2):
        raise CannotSay("it shards with FSDP2: weights, gradients and states (ZeRO 3)")
    if run.optimizer not in _OPTIMIZERS or run.finetune != "full":
        raise CannotSay("it has Adam and AdamW over all parameters")
    if run.precision not in ("bf16", "fp8", "fp32"):
        raise CannotSay(f"it runs fp32 weights with products in bf16, fp8 or fp32, not {run.precision}")
    if run.recompute not in _RECOMPUTE or (parallel.pp > 1 and parallel.schedule not in _SCHEDULES):
        raise CannotSay(f"it has no {run.recompute} recomputation or no {parallel.schedule} schedule")


def _degrees(candidate: Candidate) -> list[str]:
    run, parallel = candidate.run, candidate.parallel
    lines = [
        "[parallelism]",
        f"data_parallel_replicate_degree = {parallel.dp_replicate}",
        f"data_parallel_shard_degree = {parallel.dp_shard}",
        f'fsdp_reshard_after_forward = "{"always" if parallel.reshard else "never"}"',
        f"tensor_parallel_degree = {parallel.tp}",
        f"pipeline_parallel_degree = {parallel.pp}",
        f"context_parallel_degree = {parallel.cp}",
        f"expert_parallel_degree = {parallel.ep}",
    ]
    if parallel.etp is not None:
        lines.append(f"expert_tensor_parallel_degree = {parallel.etp}")
    if parallel.tp > 1:
        lines.append(f"disable_loss_parallel = {str(run.cross_entropy != 'parallel').lower()}")
    return lines


def _pipeline(request: Request, candidate: Candidate) -> list[str]:
    run, parallel, layers = candidate.run, candidate.parallel, request.model.layers or 0
    schedule = "Interleaved1F1B" if parallel.vp > 1 else _SCHEDULES[parallel.schedule]
    # Embedding and output count as a layer each where blocks alone do not come out even.
    counted = int(layers % (parallel.pp * parallel.vp) != 0)
    lines = [
        f'pipeline_parallel_schedule = "{schedule}"',
        f"pipeline_parallel_microbatch_size = {run.micro_batch}",
        f"pipeline_parallel_first_stage_less_layers = {counted}",
        f"pipeline_parallel_last_stage_less_layers = {counted}",
    ]
    if parallel.vp > 1:
        lines.append(f"pipeline_parallel_layers_per_stage = {(layers + 2 * counted) // (parallel.pp * parallel.vp)}")
        lines.append(f"# {parallel.vp} virtual stages on every rank")
    return lines


def _recomputation(request: Request, candidate: Candidate) -> list[str]:
    """Return what is recomputed; some of the blocks are every second, third ... of them."""
    run, layers = candidate.run, request.model.layers or 0
    if run.recompute == "full" and run.recompute_layers:
        if layers % run.recompute_layers:
            raise CannotSay(f"it recomputes every second, third ... block, not {run.recompute_layers} of {layers}")
        every = layers // run.recompute_layers
        return [
            "[activation_checkpoint]",
            'mode = "selective"',
            f'selective_ac_option = "{every}"  # of {layers} blocks',
        ]
    lines = ["[activation_checkpoint]", f'mode = "{_RECOMPUTE[run.recompute]}"']
    return [*lines, 'selective_ac_option = "op"'] if run.recompute == "op" else lines


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
    low = "fp8" if "float8" in content.get("model", {}).get("converters", []) else "bf16"
    schedule = spread.get("pipeline_parallel_schedule", "1F1B")
    chunks = re.search(r"# (\d+) virtual stages", text)
    return {
        "parallel": {
            "dp_replicate": spread["data_parallel_replicate_degree"], "dp_shard": spread["data_parallel_shard_degree"],
            "zero_stage": 3 if spread["data_parallel_shard_degree"] > 1 else 0,
            "reshard": spread["fsdp_reshard_after_forward"] == "always",
            "tp": spread["tensor_parallel_degree"], "pp": spread["pipeline_parallel_degree"],
            "cp": spread["context_parallel_degree"], "ep": spread["expert_parallel_degree"],
            "etp": spread.get("expert_tensor_parallel_degree"), "vp": int(chunks[1]) if chunks else 1,
            "schedule": "gpipe" if schedule == "GPipe" else "1f1b",
            # Norms are divided wherever tensors are.
            "sequence_parallel": spread["tensor_parallel_degree"] > 1,
        },
        "run": {
            "global_batch": training["global_batch_size"], "sequence_length": training["seq_len"],
            "micro_batch": spread.get("pipeline_parallel_microbatch_size", training["local_batch_size"]),
            "precision": "fp32" if training["mixed_precision_param"] == "float32" else low,
            "optimizer": next(name for name, title in _OPTIMIZERS.items() if title == content["optimizer"]["name"]),
            "offload": "parameters" if training.get("enable_cpu_offload") else "none",
            "stack": "compile" if content["compile"]["enable"] else "eager",
            "cross_entropy": "parallel" if spread.get("disable_loss_parallel") is False else "eager",
            "deterministic": content.get("debug", {}).get("deterministic", False), **_recomputed(content, text),
        },
    }  # fmt: skip


def _recomputed(content: dict[str, Any], text: str) -> dict[str, Any]:
    """Return what a file says of recomputation."""
    said = content["activation_checkpoint"]
    every = said.get("selective_ac_option", "")
    if not every.isdigit():
        return {"recompute": {word: kind for kind, word in _RECOMPUTE.items()}[said["mode"]]}
    blocks = re.search(r"# of (\d+) blocks", text)
    return {"recompute": "full", "recompute_layers": int(blocks[1]) // int(every) if blocks else None}
