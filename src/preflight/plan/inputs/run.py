"""From what was said about batch, precision and the rest to a run; what was not said is the usual, and told."""

from __future__ import annotations

from typing import Any

import msgspec

from preflight.cost.machine import half_of
from preflight.cost.networks.trace import network_step
from preflight.cost.optimizers import known_optimizers, optimizer_state
from preflight.cost.parameters import is_transformer
from preflight.cost.workspace import version_of
from preflight.errors import UsageError, nearest
from preflight.plan.inputs.form import ADAPTED, FLAGS
from preflight.plan.inputs.settings import Said, Settings, as_number, recomputed
from preflight.plan.request import Wish
from preflight.plan.spread import strategy_named
from preflight.vocabulary.hardware import Cluster, Gpu
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import RunSpec

DEFAULT_LENGTH = 2048
ENCODER_LENGTH = 512
_DIRECT = (
    "micro_batch", "gradient_accumulation", "precision", "optimizer_momentum", "attention", "cross_entropy",
    "cross_entropy_chunks", "loader_workers", "sample_seconds", "finetune", "offload", "trainable_parameters", "frozen_blocks",
    "frozen_beside", "evaluation_micro_batch", "expert_imbalance", "expert_capacity", *FLAGS,
)  # fmt: skip
_ADAPTER_FLAGS = ("double_quantization", "quantized_head", "quantized_inputs")
_WHOLE_BLOCKS = ("tensor_parallel", "pipeline_parallel", "hybrid")

# The rank that adapters have where nothing is said: that of the examples of PEFT and LitGPT lies between 8 and 64.
_RANK = 16


class Chosen(msgspec.Struct, frozen=True):
    """A run, with what was taken for granted."""

    run: RunSpec
    assumptions: tuple[str, ...] = ()


def run_of(settings: Settings, model: ModelSpec, wish: Wish, cluster: Cluster, searched: bool = False) -> Chosen:
    """Return the run that was described.

    Args:
        settings: What was said.
        model: What is trained.
        wish: How it is to be spread, for the layers that are usual there.
        cluster: What it is to run on.
        searched: Whether layers and recomputation are to be found by a search, and so are no assumptions.

    Raises:
        UsageError: Two values contradict each other, an optimizer is not known, or the GPU has not the type of numbers.
    """
    assumptions: list[str] = []
    fields: dict[str, Any] = {name: settings.get(f"run.{name}") for name in _DIRECT if f"run.{name}" in settings}
    fields |= {
        "precision": _precision(settings, cluster.gpu, assumptions),
        "foreach": fields.get("foreach", False),
    }
    fields["optimizer"] = _optimizer(settings, assumptions)
    fields["torch"] = _torch(settings)
    told: list[str] = [] if searched else assumptions
    fields["stack"] = _stack(settings, model, wish, told)
    _check_fields(settings, model, fields)
    fields |= _recompute(settings, model, told) | _lora(settings, assumptions)
    fields["global_batch"] = _batch(settings, assumptions, cluster.num_gpus == 1)
    fields |= _lengths(settings, model, assumptions)
    if model.heads and "run.attention" not in settings:
        assumptions.append("flash attention")
    return Chosen(RunSpec(**fields), tuple(assumptions))


def _precision(settings: Settings, gpu: Gpu, assumptions: list[str]) -> str:
    """The type of numbers: as said, else that of 16 bits that the GPU computes in."""
    half = half_of(gpu)
    given = settings.get("run.precision")
    if given is None:
        without = "" if half == "bf16" else f" (the {gpu.title} has no bfloat16)"
        assumptions.append(f"precision {half} with fp32 master weights{without}")
        return half
    if given == "fp8" and gpu.peak_flops and not gpu.peak_flops.get("fp8"):
        raise settings.error("run.precision", f"the {gpu.title} has no products of 8-bit floats", half)
    return str(given)


def _check_fields(settings: Settings, model: ModelSpec, fields: dict[str, Any]) -> None:
    """Raise for what means nothing without something else that is not there."""
    for name in ("expert_imbalance", "expert_capacity", "expert_padding"):
        if fields.get(name) and not model.experts:
            raise settings.error(f"run.{name}", f"{name}, but the model has no experts", "leave it out")
    if fields.get("expert_padding") and "expert_capacity" not in fields:
        raise settings.error(
            "run.expert_padding", "experts are filled up to a capacity that was not said", "expert_capacity: 1.25"
        )
    if fields.get("fp8_weights") and fields["precision"] != "fp8":
        raise settings.error(
            "run.fp8_weights", f"weights of 8 bits, but precision is {fields['precision']}", "precision: fp8"
        )
    for name, other in (("loader_workers", "sample_seconds"),):
        if name in fields and other not in fields:
            raise settings.error(
                f"run.{name}",
                f"{name} says nothing without {other}",
                "both: how many processes load, and what one takes for a sample",
            )


def _optimizer(settings: Settings, assumptions: list[str]) -> str:
    name = settings.get("run.optimizer")
    if name is None:
        assumptions.append("AdamW")
        return "adamw"
    if optimizer_state(name) is None:
        known = known_optimizers()
        near = nearest(str(name).lower().replace("_", ""), known)
        raise settings.error(
            "run.optimizer", f"no optimizer is called {name!r}", f"did you mean {near}?" if near else ", ".join(known)
        )
    return str(name)


def _torch(settings: Settings) -> str | None:
    version: str | None = settings.get("run.torch")
    if version is not None:
        try:
            version_of(version)
        except ValueError:
            raise settings.error("run.torch", f"{version!r} is no version of PyTorch", "in quotes: '2.11'") from None
    return version


def _stack(settings: Settings, model: ModelSpec, wish: Wish, assumptions: list[str]) -> str:
    """Return the layers: as said, those of Megatron where tensors or stages are split, else plain PyTorch."""
    said = settings.get("run.stack")
    if said is not None:
        if said == "compile" and not is_transformer(model):
            assumptions.append(
                f"figures of layers that are not compiled: what torch.compile fuses of a {_kind(model)} is not known"
            )
        return str(said)
    split = wish.strategy in _WHOLE_BLOCKS or max(wish.tensor_parallel or 1, wish.pipeline_parallel or 1) > 1
    if split and model.heads:
        assumptions.append(
            "layers of Megatron-LM with Transformer Engine (stack: megatron), as usual with this strategy"
        )
        return "megatron"
    if model.heads:
        assumptions.append("layers of plain PyTorch, not compiled (stack: eager)")
    return "eager"


def _recompute(settings: Settings, model: ModelSpec, assumptions: list[str]) -> dict[str, Any]:
    text = settings.get("run.recompute")
    if text is None:
        assumptions.append("nothing is recomputed")
        return {}
    kind, layers = recomputed(text)
    if layers is None:
        return {"recompute": kind}
    if model.layers is None or layers > model.layers:
        raise settings.error(
            "run.recompute",
            f"{layers} blocks are to be recomputed, but the model has {model.layers or 'no blocks that are known'}",
            f"at most {model.layers}" if model.layers else "full recomputes all of it",
        )
    if layers == model.layers:
        return {"recompute": "full"}
    return {"recompute": "full", "recompute_layers": layers} if layers else {"recompute": "none"}


def _lora(settings: Settings, assumptions: list[str]) -> dict[str, Any]:
    """Return what is said of adapters; their rank where nothing is."""
    adapted = settings.get("run.finetune", "full") in ("lora", "qlora")
    fields = _told_of_adapters(settings) if "run.lora" in settings else {}
    if adapted and "lora_rank" not in fields:
        targets = ", ".join(fields.get("lora_targets", RunSpec().lora_targets))
        assumptions.append(f"adapters of rank {_RANK} on {targets} (run.lora in a YAML file says otherwise)")
        fields["lora_rank"] = _RANK
    return fields


def _told_of_adapters(settings: Settings) -> dict[str, Any]:
    table: dict[str, Said] = settings.get("run.lora")
    known = ("rank", "targets", "dropout", "unpacked_copies", *_ADAPTER_FLAGS)
    fields: dict[str, Any] = {}
    for name, said in table.items():
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near}?" if near else f"known: {', '.join(known)}"
            raise UsageError(f"{said.where}: unknown key of run.lora {name!r}", hint)
        fields |= _adapter(name, said)
    if settings.get("run.finetune", "full") not in ("lora", "qlora"):
        raise settings.error(
            "run.lora", "adapters are described, but run.finetune is not lora or qlora", "finetune: lora"
        )
    return fields


def _adapter(name: str, said: Said) -> dict[str, Any]:
    """Return one key of the table of adapters."""
    number = as_number(said.value)
    if name == "rank":
        if number is None or number < 1 or number != int(number):
            raise UsageError(f"{said.where}: a rank of {said.value}", "a whole number, at least 1")
        return {"lora_rank": int(number)}
    if name == "dropout":
        if number is None or not 0 <= number < 1:
            raise UsageError(f"{said.where}: a dropout of {said.value}", "at least 0 and less than 1")
        return {"lora_dropout": number}
    if name in _ADAPTER_FLAGS:
        if not isinstance(said.value, bool):
            raise UsageError(f"{said.where}: {name} is true or false")
        return {name: said.value}
    if name == "unpacked_copies":
        if number not in (1, 2):
            raise UsageError(f"{said.where}: {said.value} unpacked copies", "1 or 2")
        return {"unpacked_copies": int(number)}
    targets = said.value if isinstance(said.value, list) else [said.value]
    for target in targets:
        if target not in ADAPTED:
            raise UsageError(f"{said.where}: no matrices are called {target!r}", f"some of {', '.join(ADAPTED)}")
    return {"lora_targets": tuple(targets)}


def _batch(settings: Settings, assumptions: list[str], single: bool) -> int | None:
    """Return the samples of an optimizer step over all GPUs, or None where the micro-batch tells them."""
    whole, model = settings.get("run.global_batch"), settings.get("model.batch_size")
    if whole is not None and model is not None and whole != model:
        raise UsageError(
            f"{settings.where('run.global_batch')}: global_batch is {whole}, but model.batch_size "
            f"({settings.where('model.batch_size')}) is {model}",
            "both mean the samples of an optimizer step over all GPUs: say it once",
        )
    batch: int | None = whole if whole is not None else model
    if batch is None and "run.micro_batch" not in settings:
        assumptions.append("one sample per GPU and step" if not single else "a batch of one sample")
    return batch


def _lengths(settings: Settings, model: ModelSpec, assumptions: list[str]) -> dict[str, Any]:
    """Return length and image size, as far as the model has them."""
    fields: dict[str, Any] = {}
    if model.vocab or model.family in ("transformer_decoder", "transformer_encoder", "encoder_decoder", "moe"):
        fields["sequence_length"] = _length(settings, model, assumptions)
        if model.family == "encoder_decoder":
            fields["target_length"] = settings.get("model.target_length")
    else:
        size = settings.get("model.image_size")
        if size is None and model.image_size:
            size = model.image_size
            assumptions.append(f"images of {size} x {size} pixels")
        fields["image_size"] = size
        if "run.tokens" in settings:
            raise settings.error(
                "run.tokens", f"a {_kind(model)} reads no tokens", "steps (--train-steps) say how long"
            )
        patch = network_step(model.network) if model.network is not None else model.patch_size
        if size and patch and size % patch:
            near = max(round(size / patch), 1) * patch
            where = settings.where("model.image_size") if "model.image_size" in settings else "model"
            raise UsageError(f"{where}: patches of {patch} pixels do not fill {size} pixels", f"{near} can")
        if model.network is not None and model.network.text_width:
            fields["sequence_length"] = settings.get("model.sequence_length")
            if fields["sequence_length"] is None:
                assumptions.append(f"{model.network.text_tokens} tokens of text for every image")
    return fields


def unused(settings: Settings, model: ModelSpec) -> tuple[str, ...]:
    """Return remarks on what was said of samples that the model does not read."""
    wrong = "model.image_size" if model.vocab else "model.sequence_length"
    told = model.network is not None and bool(model.network.text_width)
    if (model.patch_size and model.vocab) or told or wrong not in settings:
        return ()
    what = "tokens" if model.vocab else "images"
    return (f"a {_kind(model)} reads {what}: {wrong} ({settings.where(wrong)}) is not used",)


def _kind(model: ModelSpec) -> str:
    return model.family.replace("_", " ")


def _length(settings: Settings, model: ModelSpec, assumptions: list[str]) -> int:
    length = settings.get("model.sequence_length")
    if length is None:
        usual = ENCODER_LENGTH if model.family in ("transformer_encoder", "encoder_decoder") else DEFAULT_LENGTH
        usual = min(usual, model.max_positions or usual)
        assumptions.append(f"samples of {usual} tokens")
        return usual
    if model.learned_positions and model.max_positions and length > model.max_positions:
        raise settings.error(
            "model.sequence_length",
            f"{length} tokens, but {model.name or 'the model'} has a table of {model.max_positions} positions",
            f"at most {model.max_positions}",
        )
    return int(length)


def wish_of(settings: Settings) -> Wish:
    """Return how the run is to be spread, as far as it was said.

    Raises:
        UsageError: The strategy is not known.
    """
    fields = {name: settings.get(f"distribution.{name}") for name in Wish.__struct_fields__ if name != "strategy"}
    strategy = settings.get("distribution.strategy")
    if strategy is not None:
        try:
            strategy = strategy_named(str(strategy))
        except UsageError as error:
            raise settings.error("distribution.strategy", str(error), error.hint) from None
    return Wish(strategy=strategy, **fields)
