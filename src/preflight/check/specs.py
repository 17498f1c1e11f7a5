"""From what was read to numbers: the run and its layout, for the memory formulas."""

from __future__ import annotations

from typing import Any, cast

from preflight.check.compiled_loss import loss_compiled
from preflight.check.forward.kept import partly_frozen, together, with_activations
from preflight.cost.optimizers import optimizer_key
from preflight.source.adapters import adapter_configs
from preflight.source.architecture import architecture_of, explicit_attention, networks_of
from preflight.source.facts.precision import weights_dtype
from preflight.source.facts.settings import trainer_setting
from preflight.source.known_models import spec_of
from preflight.source.reading import Reading
from preflight.source.tensor_shapes import shape_of
from preflight.source.trace import name_of, provenance
from preflight.source.values import Obj, options_of, plain
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec

_CHECKPOINTING = (
    ".gradient_checkpointing_enable",
    ".set_grad_checkpointing",
    ".enable_gradient_checkpointing",
    ".enable_input_require_grads",
    "torch.utils.checkpoint.checkpoint",
    "torch.utils.checkpoint.checkpoint_sequential",
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper.apply_activation_checkpointing",
)


def model_spec(reading: Reading, facts: dict[str, Fact]) -> ModelSpec | None:
    """The architecture of the model that is trained."""
    if not reading.models:
        return None
    several = networks_of(reading)
    if len(several) > 1:
        total = sum(network.total or 0 for _, network in several)
        return together(reading, facts, ModelSpec(family="other", parameters=total, networks=len(several)), several)
    spec, network = architecture_of(reading, reading.models[0])
    if spec is None and network is not None and network.total is not None:
        spec = ModelSpec(family="other", parameters=network.total)
    if spec is None or spec.family not in ("cnn", "mlp", "rnn", "other"):
        return spec
    network = network or partly_frozen(reading, reading.models[0])
    if network is None:
        return spec
    followed = with_activations(reading, facts, spec, network)
    # A known network with little around it: its own figure has to do where the whole cannot be followed.
    return spec if followed.activation_elements is None and spec.activation_elements is not None else followed


def run_spec(reading: Reading, facts: dict[str, Fact], model: ModelSpec | None) -> RunSpec:
    """How the model is trained, in numbers; what is not known stays None."""

    def value(key: str) -> Any:
        found = facts.get(key)
        return found.value if found is not None else None

    stack, trainable = _stack(reading), value("model.trainable_parameters")
    length, variable = value("sequence_length"), bool(value("sequence_length.variable"))
    return RunSpec(
        micro_batch=value("batch.micro"),
        global_batch=value("batch.global"),
        sequence_length=length,
        variable_length=variable,
        length_schedule=tuple((int(step), int(tokens)) for step, tokens in value("sequence_length.schedule") or ()),
        target_length=_target_length(reading) if model is not None and model.family == "encoder_decoder" else None,
        image_size=value("image_size"),
        gradient_accumulation=value("gradient_accumulation") or 1,
        precision=cast(Any, _precision(reading, value("precision"), value("distributed.strategy"))),
        optimizer=optimizer_key(name) if isinstance(name := value("optimizer.name"), str) else None,
        optimizer_momentum=value("optimizer.momentum"),
        attention=cast(Any, _attention(reading, model)),
        recompute="full" if _checkpoints(reading) else "none",
        stack=cast(Any, stack),
        trainable_parameters=trainable if isinstance(trainable, int) else None,
        frozen_blocks=value("model.frozen_blocks"),
        frozen_beside=float(value("model.frozen_beside") or 0),
        logits_upcast=_upcasts(reading, stack),
        loss_compiled=stack == "compile" and loss_compiled(reading),
        clipping=bool(value("gradient_clipping")),
        evaluation_micro_batch=_evaluation_batch(reading),
        steps=value("steps"),
        **_adapters(reading),
    )


def _target_length(reading: Reading) -> int | None:
    """How many tokens the decoder of an encoder-decoder is given; None where that is not known."""
    for event in (event for loop in reading.loops[:1] for event in loop.events):
        if event.name == "()" and reading.roles.of(event.receiver) == "model":
            for name in ("labels", "decoder_input_ids"):
                shape = shape_of(event.kwargs.get(name))
                if shape is not None and len(shape) == 2:
                    return shape[1]
    for event in reading.trace.calls("()", "?", ".__call__"):
        longest = plain(event.kwargs.get("max_length"))
        if "text_target" in event.kwargs and isinstance(longest, int) and not event.context.shadow:
            return longest
    return None


def _precision(reading: Reading, told: str | None, strategy: str | None) -> str:
    """The recipe of a precision: a trainer that shards tells FSDP or DeepSpeed, which keep low-precision weights themselves.

    Autocast around weights that were loaded in its own type finds nothing to cast: they, their gradients and states are in it.

    Source: ``FullyShardedDataParallelPlugin.set_mixed_precision`` of accelerate; the bf16 and fp16 sections that
    transformers fills in DeepSpeed's configuration.
    """
    if told is None:
        return "fp32"
    shards = isinstance(strategy, str) and strategy.startswith(("fsdp", "zero"))
    handed_on = shards and any(reading.made(r) for r in ("trainer", "accelerator", "lightning_trainer", "fabric"))
    if handed_on:
        return told.removeprefix("autocast-")
    weights = weights_dtype(reading) if told.startswith("autocast-") else None
    own = weights is not None and weights.value == told.replace("autocast-", "pure-")
    return told.replace("autocast-", "pure-") if own else told


def _attention(reading: Reading, model: ModelSpec | None) -> str:
    """Fused unless the script writes the soft-max out or asks a library for the eager one."""
    for made in reading.models[:1]:
        asked = plain(made.kwargs.get("attn_implementation"))
        if asked == "eager":
            return "eager"
        if made.cls is not None and explicit_attention(reading) is not None:
            fused = reading.trace.calls(
                "torch.nn.functional.scaled_dot_product_attention", "flash_attn.flash_attn_func"
            )
            return "flash" if any(not e.context.shadow for e in fused) else "eager"
    return "flash"


def _checkpoints(reading: Reading) -> bool:
    if plain(trainer_setting(reading, "gradient_checkpointing")) is True:
        return True
    # Unless told otherwise, PEFT turns it on where it prepares a quantised model.
    prepared = reading.trace.calls("peft.prepare_model_for_kbit_training", "peft.prepare_model_for_int8_training")
    if any(plain(e.argument(1, "use_gradient_checkpointing"), True) and not e.context.shadow for e in prepared):
        return True
    return any(not e.context.shadow for e in reading.trace.calls(*_CHECKPOINTING))


def _stack(reading: Reading) -> str:
    for event in reading.trace.calls("torch.compile", ".compile"):
        if not event.context.shadow and event.name == "torch.compile":
            return "compile"
    if plain(trainer_setting(reading, "torch_compile")) is True:
        return "compile"
    for made in reading.models[:1]:
        if made.name.startswith(("transformers.", "peft.")) or (
            made.cls is None and spec_of(reading, made) is not None and "transformers" in made.name
        ):
            return "transformers"
    return "eager"


def _upcasts(reading: Reading, stack: str) -> bool:
    """Whether the logits become fp32 before the loss: the models of transformers do it, others where the script says so."""
    if stack == "transformers":
        return True
    return any(
        isinstance(part, Obj) and part.name == ".float"
        for loop in reading.loops[:1]
        for loss in loop.losses()
        for part in provenance(loss, 24)
    )


def _evaluation_batch(reading: Reading) -> int | None:
    """The batch of the loader that an evaluation loop goes over: the largest of those that do not train."""
    from preflight.source.facts.data import training_loader

    given = plain(trainer_setting(reading, "per_device_eval_batch_size"))
    if isinstance(given, int) and any(t.argument(4, "eval_dataset") is not None for t in reading.made("trainer")):
        return given
    train = training_loader(reading)
    sizes = [
        plain(o.argument(1, "batch_size"))
        for o in reading.made("loader")
        if o is not train and not (o.context is not None and o.context.shadow)
    ]
    return max((s for s in sizes if isinstance(s, int) and not isinstance(s, bool)), default=None)


_QUERIES_KEYS_VALUES = ("q", "k", "v")
# What the models of transformers call the matrices of attention; one that yields queries, keys and values stands for all
# three. Other names are taken for those of the feed-forward layer.
_MATRICES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("q_proj", "q_lin", "query", "q"), ("q",)),
    **dict.fromkeys(("k_proj", "k_lin", "key", "k"), ("k",)),
    **dict.fromkeys(("v_proj", "v_lin", "value", "v"), ("v",)),
    **dict.fromkeys(("o_proj", "out_proj", "out_lin", "o"), ("o",)),
    **dict.fromkeys(("c_attn", "qkv_proj", "query_key_value", "Wqkv", "qkv"), _QUERIES_KEYS_VALUES),
    "lm_head": ("head",),
}


def _adapted(name: str) -> tuple[str, ...]:
    """The matrices that a name of ``target_modules`` stands for, in the words of ``RunSpec.lora_targets``."""
    return _MATRICES.get(name.rpartition(".")[2], ("mlp",))


def _adapters(reading: Reading) -> dict[str, Any]:
    """LoRA adapters, and 4-bit weights under them."""
    for config in adapter_configs(reading):
        if not isinstance(config, Obj) or config.name != "peft.LoraConfig":
            return {}
        rank = plain(config.kwargs.get("r"), 8)
        targets = plain(config.kwargs.get("target_modules"))
        found: dict[str, Any] = {
            "finetune": "qlora" if _quantised(reading) else "lora",
            "lora_rank": rank if isinstance(rank, int) else None,
        }
        if isinstance(targets, (list, tuple)):
            found["lora_targets"] = tuple(sorted({part for name in targets for part in _adapted(str(name))}))
        elif targets == "all-linear":
            found["lora_targets"] = ("k", "mlp", "o", "q", "v")
        dropout = plain(config.kwargs.get("lora_dropout"), 0.0)
        return found | ({"lora_dropout": float(dropout)} if isinstance(dropout, (int, float)) else {})
    return {}


def _quantised(reading: Reading) -> bool:
    for event in reading.trace.calls("transformers.BitsAndBytesConfig"):
        if plain(event.kwargs.get("load_in_4bit")) is True and not event.context.shadow:
            return True
    return any(plain(m.kwargs.get("load_in_4bit")) is True for m in reading.made("model"))


def parallel_dims(reading: Reading, facts: dict[str, Fact]) -> ParallelDims:
    """How the run is spread; one GPU where nothing says otherwise."""
    strategy = facts["distributed.strategy"].value
    world = facts["world_size"].value
    if not isinstance(world, int) or world < 2:
        return ParallelDims(framework=strategy if strategy in ("ddp", "fsdp1", "fsdp2", "deepspeed") else None)
    if strategy in ("fsdp1", "fsdp2"):
        stage = 2 if _keeps_parameters(reading) else 3
        return ParallelDims(dp_shard=world, zero_stage=stage, framework=strategy)
    if isinstance(strategy, str) and strategy.startswith("zero"):
        return ParallelDims(dp_shard=world, zero_stage=int(strategy[4:]), framework="deepspeed")
    return ParallelDims(dp_replicate=world, framework="ddp")


def _keeps_parameters(reading: Reading) -> bool:
    for event in reading.trace.calls("torch.distributed.fsdp.FullyShardedDataParallel"):
        for option in options_of(event.kwargs.get("sharding_strategy")):
            if (name_of(option) or "").endswith("SHARD_GRAD_OP"):
                return True
    return False


def longest(reading: Reading, facts: dict[str, Fact], model: ModelSpec | None) -> dict[str, Fact]:
    """Where a tokenizer truncates to the model's own longest input, that is the longest sequence."""
    if facts["sequence_length"].known or model is None or model.max_positions is None:
        return {}
    for event in reading.trace.calls("()", "?", ".__call__"):
        if plain(event.kwargs.get("truncation")) is True and plain(event.kwargs.get("max_length")) is None:
            place = event.script.location(event.node)
            return {
                "sequence_length": Fact(
                    model.max_positions, place, f"truncation to the longest input of {model.name or 'the model'}"
                ),
                "sequence_length.variable": Fact(True, place, "no padding to a fixed length"),
            }
    return {}
