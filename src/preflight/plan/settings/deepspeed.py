"""The JSON file of DeepSpeed."""

from __future__ import annotations

import json
from typing import Any

from preflight.plan.request import Request
from preflight.plan.settings import accumulation
from preflight.plan.settings_reason import CannotSay, spelled
from preflight.vocabulary.plan import Candidate

TITLE = "DeepSpeed: ds_config.json"
# The model and its data are the training code's.
ASIDE = ("sequence_length", "attention", "gradient_as_bucket_view")
_TYPES = {"bf16": "bf16", "fp16": "fp16", "fp32": None}
_OPTIMIZERS = {
    "adamw": "AdamW", "adam": "Adam", "lion": "Lion", "adagrad": "Adagrad", "sgd": "SGD", "rmsprop": "RMSprop", "muon": "Muon",
}  # fmt: skip


def write(request: Request, candidate: Candidate) -> str:
    """Return the file.

    Raises:
        CannotSay: Layouts that need more than data parallelism, stages and ZeRO; what only code can say.
    """
    if candidate.parallel.pp > 1:
        raise CannotSay("pipeline stages are built by the training code")
    return json.dumps(config_of(candidate), indent=2) + "\n"


def config_of(candidate: Candidate, with_optimizer: bool = True) -> dict[str, Any]:
    """Return the content of the file, with or without the optimizer.

    Raises:
        CannotSay: Layouts that need more than data parallelism, stages and ZeRO, or another precision.
    """
    run, parallel = candidate.run, candidate.parallel
    if parallel.tp * parallel.cp * parallel.ep > 1:
        raise CannotSay("its file has no tensor, context or expert parallelism")
    if parallel.framework not in (None, "ddp", "deepspeed"):
        raise CannotSay(f"the layout was planned for {parallel.framework}")
    if parallel.dp_replicate > 1 and parallel.dp_shard > 1:
        raise CannotSay("it shards over all data-parallel ranks")
    if run.precision not in _TYPES:
        raise CannotSay(f"it runs {', '.join(_TYPES)}, not {run.precision}")
    content: dict[str, Any] = {
        "train_batch_size": run.global_batch,
        "train_micro_batch_size_per_gpu": run.micro_batch,
        "gradient_accumulation_steps": accumulation(candidate),
        "zero_optimization": _zero(candidate),
    }
    if with_optimizer:
        content["optimizer"] = _optimizer(candidate)
    kind = _TYPES[run.precision]
    if kind:
        content[kind] = {"enabled": True}
    if run.clipping:
        content["gradient_clipping"] = 1.0
    if run.recompute == "full" or run.offload == "activations":
        content["activation_checkpointing"] = {"cpu_checkpointing": run.offload == "activations"}
        if run.recompute_layers:
            content["activation_checkpointing"]["number_checkpoints"] = run.recompute_layers
    return content


def _optimizer(candidate: Candidate) -> dict[str, Any]:
    run = candidate.run
    name = spelled(run.optimizer)
    if name not in _OPTIMIZERS:
        raise CannotSay(f"its file names {', '.join(_OPTIMIZERS.values())}, not {run.optimizer}")
    momentum = {"momentum": run.optimizer_momentum} if run.optimizer_momentum else {}
    return {"type": _OPTIMIZERS[name], "params": {"lr": "auto", **momentum}}


def _zero(candidate: Candidate) -> dict[str, Any]:
    run, parallel = candidate.run, candidate.parallel
    zero: dict[str, Any] = {"stage": parallel.zero_stage}
    if parallel.zero_stage:
        zero |= {"overlap_comm": True, "contiguous_gradients": True}
    if run.offload in ("optimizer", "parameters"):
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if run.offload == "parameters":
        zero["offload_param"] = {"device": "cpu", "pin_memory": True}
    return zero


def read(text: str) -> dict[str, dict[str, Any]]:
    """Return the layout and the run that a file stands for."""
    return stands_for(json.loads(text))


def stands_for(content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the layout and the run of a file's content."""
    micro, steps = content["train_micro_batch_size_per_gpu"], content["gradient_accumulation_steps"]
    ranks = content["train_batch_size"] // (micro * steps)
    zero, kept = content["zero_optimization"], content.get("activation_checkpointing")
    stage = zero["stage"]
    offload = "parameters" if "offload_param" in zero else "optimizer" if "offload_optimizer" in zero else "none"
    kinds = [kind for kind in ("bf16", "fp16") if content.get(kind, {}).get("enabled")]
    said = content.get("optimizer", {})
    return {
        "parallel": {
            "zero_stage": stage, "dp_shard": ranks if stage else 1, "dp_replicate": 1 if stage else ranks,
        },
        "run": {
            "global_batch": content["train_batch_size"], "micro_batch": micro,
            "offload": "activations" if kept and kept["cpu_checkpointing"] else offload,
            "precision": kinds[0] if kinds else "fp32", "clipping": "gradient_clipping" in content,
            "optimizer": next((name for name, title in _OPTIMIZERS.items() if title == said.get("type")), None),
            "optimizer_momentum": said.get("params", {}).get("momentum"),
            "recompute": "full" if kept else "none",
            "recompute_layers": kept.get("number_checkpoints") if kept else None,
        },
    }  # fmt: skip
