"""The JSON file of DeepSpeed."""

from __future__ import annotations

import json
from typing import Any

from preflight.plan.request import Request
from preflight.plan.settings import accumulation
from preflight.vocabulary.plan import Candidate

TITLE = "DeepSpeed: ds_config.json"
_TYPES = {"bf16": "bf16", "fp16": "fp16", "fp32": None}
_OPTIMIZERS = {"adamw": "AdamW", "adam": "Adam", "lion": "Lion", "adagrad": "Adagrad"}


def settings(request: Request, candidate: Candidate) -> str | None:
    """Return the file, or None for layouts that need more than data parallelism and ZeRO."""
    run, parallel = candidate.run, candidate.parallel
    if parallel.tp * parallel.pp * parallel.cp * parallel.ep > 1 or run.precision not in _TYPES:
        return None
    if parallel.dp_replicate > 1 and parallel.dp_shard > 1:
        return None
    if run.optimizer not in _OPTIMIZERS or run.finetune == "qlora":
        return None
    zero: dict[str, Any] = {"stage": parallel.zero_stage}
    if parallel.zero_stage:
        zero |= {"overlap_comm": True, "contiguous_gradients": True}
    if run.offload == "optimizer":
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if run.offload == "parameters":
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
        zero["offload_param"] = {"device": "cpu", "pin_memory": True}
    content: dict[str, Any] = {
        "train_batch_size": run.global_batch,
        "train_micro_batch_size_per_gpu": run.micro_batch,
        "gradient_accumulation_steps": accumulation(candidate),
        "zero_optimization": zero,
        "optimizer": {"type": _OPTIMIZERS[run.optimizer], "params": {"lr": "auto"}},
    }
    kind = _TYPES[run.precision]
    if kind:
        content[kind] = {"enabled": True}
    if run.clipping:
        content["gradient_clipping"] = 1.0
    return json.dumps(content, indent=2) + "\n"


def read(text: str) -> dict[str, dict[str, Any]]:
    """Return the layout and the run that a file stands for."""
    content = json.loads(text)
    micro, steps = content["train_micro_batch_size_per_gpu"], content["gradient_accumulation_steps"]
    ranks = content["train_batch_size"] // (micro * steps)
    zero = content["zero_optimization"]
    stage = zero["stage"]
    offload = "parameters" if "offload_param" in zero else "optimizer" if "offload_optimizer" in zero else "none"
    kinds = [kind for kind in ("bf16", "fp16") if content.get(kind, {}).get("enabled")]
    return {
        "parallel": {
            "zero_stage": stage, "dp_shard": ranks if stage else 1, "dp_replicate": 1 if stage else ranks,
        },
        "run": {
            "global_batch": content["train_batch_size"], "micro_batch": micro, "offload": offload,
            "precision": kinds[0] if kinds else "fp32", "clipping": "gradient_clipping" in content,
        },
    }  # fmt: skip
