"""Where and how the weights of a model lie: what else than this GPU may hold them, and what makes them smaller."""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.check.queries.devices import named_device
from preflight.source.facts.settings import argument_of, deepspeed_config, trainer_setting
from preflight.source.pins import asked_below
from preflight.source.reading import Reading
from preflight.source.values import Dict, Known, Obj, Value, options_of, plain, settle
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.run import RunSpec

_QUANTISED = ("quantization_config", "load_in_4bit", "load_in_8bit")
_SPREAD = ("device_map", "max_memory", "offload_folder")
# Families of the years when weights were published in float32, by the names of their checkpoints.
_IN_FP32 = re.compile(
    r"bert|electra|mpnet|minilm|(^|[/-])(distil)?gpt-?2|gpt-?neo-|dialogpt|(^|[/-])(distil|m)?bart|(^|[/-])(flan-)?m?t5-|"
    r"(^|[/-])(vit|deit|beit|dinov2|swin|convnext|resnet|clip|wav2vec2|hubert)-"
)
_SHARDERS = ("torch.distributed.fsdp.FullyShardedDataParallel", "torch.distributed.fsdp.fully_shard")


def why_less(reading: Reading, run: RunSpec, facts: dict[str, Fact]) -> str | None:
    """Return why the weights may take less of the GPU than their number says; None where they lie on it whole.

    Weights that are quantised take a quarter or an eighth of what they take otherwise, and those that a map lays on several
    devices, on the processor or on disk take what the map leaves here: that they do not fit is certain of neither. Weights
    of four bits under adapters are counted as such. States that are sharded over nobody knows how many GPUs, or that are
    kept in the host's memory, take less of each as well, and a run on the processor takes nothing of any.
    """
    return _elsewhere(reading, facts) or _smaller(reading, run)


def _elsewhere(reading: Reading, facts: dict[str, Fact]) -> str | None:
    """Why less than the whole of the states may lie on this GPU, whatever width they have."""
    strategy, world = facts["distributed.strategy"], facts["world_size"]
    if isinstance(strategy.value, str) and strategy.value.startswith(("fsdp", "zero")) and not world.known:
        return f"the states are sharded over the GPUs ({strategy.value}), and their number is not known: give --gpus or --launch"
    reason = strategy.reason or ""
    if not strategy.known and reason.startswith("the strategy ") and not reason.startswith("the strategy auto "):
        return f"how the states are spread is not known: {reason}"
    if (offloads := next(_offloads(reading), None)) is not None:
        return f"how much of the states lies in the host's memory is not counted ({offloads})"
    if named_device(reading.trace) == "cpu":
        return "the network trains on the CPU: the GPU holds nothing of it"
    return None


def _offloads(reading: Reading) -> Iterator[str]:
    """What asks for states in the host's memory, or may: DeepSpeed's, FSDP's and Lightning's settings."""
    zero = (deepspeed_config(reading) or {}).get("zero_optimization")
    for name in ("offload_optimizer", "offload_param", "cpu_offload"):
        given = zero.get(name) if isinstance(zero, dict) else None
        if given and not (isinstance(given, dict) and given.get("device") == "none"):
            yield name
    names = (plain(argument_of(reading, role, "strategy")) for role in ("lightning_trainer", "fabric"))
    yield from (name for name in (*names, plain(trainer_setting(reading, "fsdp"))) if "offload" in str(name))
    for event in reading.trace.calls(*_SHARDERS):
        for name in ("cpu_offload", "offload_policy"):
            if name in event.kwargs and not all(_stays(option) for option in options_of(event.kwargs[name])):
                yield name
    for role in ("lightning_trainer", "fabric"):
        for option in options_of(argument_of(reading, role, "strategy")):
            given = option.kwargs if isinstance(option, Obj) else {}
            yield from (n for n, v in given.items() if "offload" in n and not all(map(_stays, options_of(v))))


def _stays(value: Value) -> bool:
    """Whether an argument that could move states to the host does not."""
    base = settle(value)
    if isinstance(base, Obj) and base.name.endswith(("CPUOffload", "OffloadPolicy")):
        # FSDP2's OffloadPolicy is the one that does nothing; the first of CPUOffload's arguments says whether it does.
        first = base.argument(0, "offload_params")
        return "CPUOffload" not in base.name or (
            base.name.endswith(".CPUOffload") and (first is None or _is_off(settle(first)))
        )
    return _is_off(base)


def may_be_half(reading: Reading) -> bool:
    """Whether weights that are counted in fp32 may have 16 bits: Transformers 5 loads them as the checkpoint has them.

    Versions before it load them in fp32 where no ``dtype`` is given; so does a repository that asks for one of those.
    """
    loaded = [
        model
        for model in reading.made("model")
        if model.name.startswith("transformers.") and model.name.endswith(".from_pretrained")
        if not {"dtype", "torch_dtype"} & model.kwargs.keys() and not _published_in_fp32(model)
    ]
    return bool(loaded) and not reading.trace.calls(".float") and not asked_below(reading.project, "transformers", 5)


def _published_in_fp32(model: Obj) -> bool:
    """Whether a checkpoint is one of those whose weights are published in float32: neither version makes them smaller."""
    name = plain(model.argument(0, "pretrained_model_name_or_path"))
    return isinstance(name, str) and _IN_FP32.search(name.lower()) is not None


def _smaller(reading: Reading, run: RunSpec) -> str | None:
    """Why the weights may be narrower than they are counted, or lie on several devices."""
    for model in reading.made("model"):
        if not model.name.endswith(".from_pretrained"):
            continue
        given = {name: settle(value) for name, value in model.kwargs.items()}
        quantised = next((name for name in _QUANTISED if name in given and not _is_off(given[name])), None)
        if quantised is not None and run.finetune != "qlora":
            return f"how many bits the weights take is not counted ({quantised})"
        spread = next((name for name in _SPREAD if name in given and not _is_one_device(given[name])), None)
        if spread is not None:
            return f"how much of the weights lies on this GPU is left to {spread}"
        if model.open_args:
            return "what is handed to from_pretrained is not known as a whole, and may quantise or spread the weights"
    return None


def _is_off(value: Value) -> bool:
    return isinstance(value, Known) and value.value in (None, False)


def _is_one_device(value: Value) -> bool:
    """Whether nothing is spread: no map, one device, or one for everything (``{"": 0}``)."""
    if isinstance(value, Dict):
        return not value.open and len(value.entries) == 1
    return _is_off(value) or (isinstance(value, Known) and (value.value == 0 or str(value.value).startswith("cuda")))
