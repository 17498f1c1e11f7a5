"""Where settings of a run are given: TrainingArguments, Accelerator, Lightning's Trainer, DeepSpeed's configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from preflight.source.values import Dict, Known, Obj, Value, plain, settle

if TYPE_CHECKING:
    from preflight.source.reading import Reading

# Defaults of transformers.TrainingArguments that decide memory and speed.
TRAINING_ARGUMENTS = {
    "per_device_train_batch_size": 8,
    "per_device_eval_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "learning_rate": 5e-5,
    "num_train_epochs": 3.0,
    "max_steps": -1,
    "warmup_steps": 0,
    "dataloader_num_workers": 0,
    "max_grad_norm": 1.0,
    "lr_scheduler_type": "linear",
    "optim": "adamw_torch",
    "fp16": False,
    "bf16": False,
    "gradient_checkpointing": False,
    "torch_compile": False,
    "dataloader_pin_memory": True,
    "weight_decay": 0.0,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-8,
    "seed": 42,
}


# Learning rates that TRL's configurations set in place of TrainingArguments' 5e-5.
_TRL_LEARNING_RATES = {
    "SFTConfig": 2e-5,
    "DPOConfig": 1e-6,
    "GRPOConfig": 1e-6,
    "RLOOConfig": 1e-6,
    "KTOConfig": 1e-6,
    "CPOConfig": 1e-6,
    "ORPOConfig": 1e-6,
    "RewardConfig": 1e-4,
    "OnlineDPOConfig": 5e-7,
}


# What differs from version to version there.
_TRL_VARIES = frozenset({"bf16", "gradient_checkpointing", "learning_rate"})


def _default(arguments: Obj, name: str) -> Value | None:
    """The default of a setting; None where a class of another library may set one of its own."""
    bases = arguments.cls.external_bases() if arguments.cls is not None else [arguments.name]
    foreign = next((b for b in bases if b.startswith("trl.")), None)
    if foreign is None:
        return Known(TRAINING_ARGUMENTS[name], arguments.site, "default of TrainingArguments", True)
    kind = foreign.rpartition(".")[2]
    if name == "learning_rate" and kind in _TRL_LEARNING_RATES:
        return Known(_TRL_LEARNING_RATES[kind], arguments.site, f"default of {kind}", True)
    if name in _TRL_VARIES:
        return None
    return Known(TRAINING_ARGUMENTS[name], arguments.site, "default of TrainingArguments", True)


def training_arguments(reading: Reading) -> Obj | None:
    """The arguments of the Hugging Face trainer, the ones that a trainer is given first."""
    for trainer in reading.made("trainer"):
        given = settle(trainer.argument(1, "args") or Known(None))
        if isinstance(given, Obj):
            return given
    made = sorted(reading.made("training_arguments"), key=lambda o: o.context is not None and o.context.shadow)
    return made[0] if made else None


def trainer_setting(reading: Reading, name: str) -> Value | None:
    """A setting of the Hugging Face trainer: as given, or the library's default."""
    arguments = training_arguments(reading)
    if arguments is None:
        return None
    given = arguments.kwargs.get(name)
    if given is None:
        held = arguments.attrs.get(name)
        if held is not None and not (isinstance(held, Obj) and held.kind == "attr"):
            given = held
    if given is not None:
        return given
    if name in TRAINING_ARGUMENTS and not (arguments.open_args and name not in arguments.kwargs):
        return _default(arguments, name)
    return None


def argument_of(reading: Reading, role: str, name: str) -> Value | None:
    """A keyword argument of the first thing of a role: ``argument_of(reading, "accelerator", "mixed_precision")``."""
    for made in sorted(reading.made(role), key=lambda o: o.context is not None and o.context.shadow):
        if name in made.kwargs:
            return made.kwargs[name]
        held = made.attrs.get(name)
        if held is not None and made.cls is not None:
            return held
    return None


def deepspeed_config(reading: Reading) -> dict[str, Any] | None:
    """The DeepSpeed configuration: a dictionary in the script, or a JSON file of the repository."""
    candidates: list[Value] = []
    for event in reading.trace.calls("deepspeed.initialize"):
        candidates += [v for k, v in event.kwargs.items() if k in ("config", "config_params")]
        arguments = event.argument(0, "args")
        holder = settle(arguments) if arguments is not None else None
        if isinstance(holder, Obj) and "deepspeed_config" in holder.attrs:
            candidates.append(holder.attrs["deepspeed_config"])
    given = trainer_setting(reading, "deepspeed")
    if given is not None:
        candidates.append(given)
    for candidate in candidates:
        found = read_config(reading, candidate)
        if found is not None:
            return found
    return None


def read_config(reading: Reading, value: Value) -> dict[str, Any] | None:
    """A configuration given as a dictionary or as the path of a JSON file of the repository."""
    settled = settle(value)
    if isinstance(settled, Dict):
        return {str(k): plain(v) for k, v in settled.entries.items()}
    if isinstance(settled, Known) and isinstance(settled.value, str) and settled.value.endswith(".json"):
        data = reading.project.read_data(settled.value)
        if data is not None:
            try:
                decoded = msgspec.json.decode(data[0])
            except (msgspec.DecodeError, RecursionError):
                return None
            return decoded if isinstance(decoded, dict) else None
    return None
