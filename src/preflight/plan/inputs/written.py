"""A request as settings in YAML, in the form that is read: what is read back is the same request."""

from __future__ import annotations

from typing import Any

from preflight.catalog.architectures import load_model, model_names
from preflight.catalog.hardware import gpu_names, load_gpu
from preflight.errors import UsageError
from preflight.plan.inputs.architecture import KNOWN
from preflight.plan.inputs.form import KEYS
from preflight.plan.request import Request
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import RunSpec

_GATED = {"silu": "swiglu", "gelu": "geglu", "relu": "reglu"}
_MODEL_KEYS = {"sequence_length": "sequence_length", "image_size": "image_size", "target_length": "target_length"}
_LORA = {
    "lora_rank": "rank", "lora_targets": "targets", "lora_dropout": "dropout", "double_quantization": "double_quantization",
    "quantized_head": "quantized_head", "quantized_inputs": "quantized_inputs", "unpacked_copies": "unpacked_copies",
}  # fmt: skip
# Said elsewhere, or not part of what a plan is asked.
_ELSEWHERE = {"recompute", "recompute_layers", "global_batch", "steps", *_MODEL_KEYS, *_LORA}
# What reading fills in with the usual where it is not said: said as null where the architecture has none.
_FILLED = {
    "norm": None, "bias": None, "tied_embeddings": None, "ffn": None, "max_positions": "transformer_encoder",
    "channels": "vision_transformer", "learned_positions": "vision_transformer", "tokens_per_image": "vision_transformer",
    "image_size": "vision_transformer",
}  # fmt: skip


def to_yaml(request: Request) -> str:
    """Return a request in the form of the settings file. A layout that is decided is written out degree by degree.

    Raises:
        UsageError: The request holds something that the form cannot say (a second tower, a length that changes).
    """
    import yaml

    content = {
        "model": _model(request),
        "run": _run(request),
        "hardware": _hardware(request),
        "cluster": _cluster(request),
        "distribution": _distribution(request),
        "analysis": _analysis(request),
    }
    text: str = yaml.safe_dump({name: part for name, part in content.items() if part}, sort_keys=False)
    return text


def _model(request: Request) -> dict[str, Any]:
    model, run = request.model, request.run
    found: dict[str, Any] = {"type": model.family} if model.family in KEYS["model.type"].choices else {}
    if model.name in model_names() and load_model(model.name or "") == model:
        found["name"] = model.name
    else:
        found["architecture"] = _architecture(model)
    return found | {key: getattr(run, field) for field, key in _MODEL_KEYS.items() if getattr(run, field) is not None}


def _architecture(model: ModelSpec) -> dict[str, Any]:
    """Return every number of an architecture that is not the vocabulary's own default."""
    if model.text is not None:
        raise UsageError("a model of two towers has no form as an architecture", "name it: model.name")
    if model.network is not None:
        raise UsageError("the form of a diffusion model is no table of numbers", "name it: model.name, or model.config")
    plain = ModelSpec(family=model.family)
    filled = {name for name, family in _FILLED.items() if family in (None, model.family)} if model.heads else set()
    found = {
        name: getattr(model, name) for name in KNOWN if getattr(model, name) != getattr(plain, name) or name in filled
    }
    if model.gated and model.activation in _GATED:
        found["activation"] = _GATED[model.activation]
        del found["gated"]
    return found


def _run(request: Request) -> dict[str, Any]:
    run = request.run
    if run.length_schedule or run.kept_bytes_per_step or run.evaluation_without_no_grad or run.evaluation_precision:
        raise UsageError("a run whose length changes or that grows has no form as settings")
    plain = RunSpec(foreach=False)
    told = ("precision", "optimizer", "attention", "stack")
    found: dict[str, Any] = {
        name: getattr(run, name)
        for name in RunSpec.__struct_fields__
        if name not in _ELSEWHERE
        and f"run.{name}" in KEYS
        and getattr(run, name) is not None
        and (name in told or getattr(run, name) != getattr(plain, name))
    }
    if run.global_batch is not None:
        found["global_batch"] = run.global_batch
    layers = f":{run.recompute_layers}" if run.recompute_layers is not None else ""
    found["recompute"] = f"{run.recompute}{layers}"
    if run.finetune in ("lora", "qlora"):
        table = {key: getattr(run, field) for field, key in _LORA.items() if getattr(run, field) is not None}
        found["lora"] = table | {"targets": list(run.lora_targets)}
    for name in ("tokens", "steps", "checkpoint_steps"):
        if getattr(request, name) is not None:
            found[name] = getattr(request, name)
    return found


def _hardware(request: Request) -> dict[str, Any]:
    gpu = request.cluster.gpu
    if gpu.name not in gpu_names():
        return {"gpu_type": gpu.name}
    usual = load_gpu(gpu.name)
    if gpu.memory_bytes == usual.memory_bytes:
        return {"gpu_type": gpu.name}
    return {"gpu_type": gpu.name, "memory_bytes": gpu.memory_bytes}


def _cluster(request: Request) -> dict[str, Any]:
    cluster = request.cluster
    found: dict[str, Any] = {"num_gpus": cluster.num_gpus, "gpus_per_node": cluster.gpus_per_node}
    if cluster.intra is not None:
        found["interconnect"] = cluster.intra.name
    if cluster.inter is not None and cluster.nodes > 1:
        found["inter_node"] = cluster.inter.name
    if cluster.host_memory_bytes is not None:
        found["host_memory"] = cluster.host_memory_bytes / 1e9
    if request.storage_gb_per_s is not None:
        found["storage_gb_per_s"] = request.storage_gb_per_s
    if cluster.nics_per_node is not None:
        found["nics_per_node"] = cluster.nics_per_node
    return found


def _distribution(request: Request) -> dict[str, Any]:
    """Return the degrees of the layout where it is decided, else what was wished."""
    dims, wish = request.parallel, request.wish
    if dims is None:
        return {name: getattr(wish, name) for name in wish.__struct_fields__ if getattr(wish, name) is not None}
    found: dict[str, Any] = {
        "strategy": "hybrid" if dims.world_size > 1 else None,
        "data_parallel": dims.dp_replicate * dims.dp_shard,
        "tensor_parallel": dims.tp,
        "pipeline_parallel": dims.pp,
        "virtual_pipeline": dims.vp,
        "context_parallel": dims.cp,
        "expert_parallel": dims.ep,
        "sequence_parallel": dims.sequence_parallel,
        "zero_stage": dims.zero_stage,
        "shard_size": dims.dp_shard if dims.dp_shard > 1 and dims.dp_replicate > 1 else None,
        "framework": dims.framework,
        "expert_tensor_parallel": dims.etp,
        "first_layers": dims.first_layers,
        "last_layers": dims.last_layers,
        "schedule": dims.schedule if dims.pp > 1 or dims.schedule != "1f1b" else None,
        "reshard": None if dims.reshard else False,
    }
    return {name: value for name, value in found.items() if value is not None}


def _analysis(request: Request) -> dict[str, Any]:
    flags = {
        "enable_bottlenecks": request.bottlenecks,
        "max_batch_size": request.max_batch_size,
        "search": request.search and request.parallel is None,
        "basic_mode": request.basic,
    }
    return {name: True for name, value in flags.items() if value}
