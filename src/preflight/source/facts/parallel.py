"""World size and how the model is spread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.facts.settings import (
    argument_of,
    deepspeed_config,
    read_config,
    trainer_setting,
    training_arguments,
)
from preflight.source.facts.telling import at, fact_of, unknown
from preflight.source.launcher import Launch
from preflight.source.values import Known, Obj, Value, options_of, plain, settle
from preflight.vocabulary.fact import Fact

if TYPE_CHECKING:
    from preflight.source.reading import Reading

_WRAPPERS = (
    ("torch.distributed.fsdp.fully_shard", "fsdp2"),
    ("torch.distributed.fsdp.FullyShardedDataParallel", "fsdp1"),
    ("fairscale.nn.FullyShardedDataParallel", "fsdp1"),
    ("torch.nn.parallel.DistributedDataParallel", "ddp"),
    ("apex.parallel.DistributedDataParallel", "ddp"),
    ("torch.nn.parallel.DataParallel", "dp"),
)


def facts(reading: Reading, launch: Launch, gpus: int | None, known: dict[str, Fact]) -> dict[str, Fact]:
    """Facts of the distribution."""
    strategy = _strategy(reading, launch)
    return {"distributed.strategy": strategy, "world_size": _world_size(reading, launch, gpus)}


def _strategy(reading: Reading, launch: Launch) -> Fact:
    config = deepspeed_config(reading)
    if config is not None or reading.made("engine"):
        section = (config or {}).get("zero_optimization")
        stage = section.get("stage", 0) if isinstance(section, dict) else 0
        if config is None:
            return unknown("the DeepSpeed configuration is not in the repository")
        return Fact(f"zero{stage}" if stage else "ddp", None, "DeepSpeed configuration")
    for name, strategy in _WRAPPERS:
        events = [e for e in reading.trace.calls(name) if not e.context.shadow]
        if events:
            return at(events[0], strategy, "wrapper of the model")
    fsdp = trainer_setting(reading, "fsdp")
    if fsdp is not None and plain(fsdp):
        return Fact("fsdp1", None, "TrainingArguments(fsdp=)")
    given = argument_of(reading, "lightning_trainer", "strategy") or argument_of(reading, "fabric", "strategy")
    told = _of_lightning(given) if given is not None else None
    if told is not None:
        return told
    shadow = [s for n, s in _WRAPPERS if reading.trace.calls(n)]
    if shadow:
        return unknown(f"{shadow[0]} is used when the script is launched for several ranks")
    if training_arguments(reading) is not None or reading.made("accelerator"):
        return _launched(reading, launch) or unknown("the launcher decides")
    return unknown("the model is not wrapped for several ranks")


_NAMED = {
    "fsdp": "fsdp1",
    "fsdp_cpu_offload": "fsdp1",
    "fsdp_native": "fsdp1",
    "deepspeed": "zero2",
    "dp": "dp",
}
_OBJECTS = {
    "DDPStrategy": "ddp",
    "DDPSpawnStrategy": "ddp",
    "FSDPStrategy": "fsdp1",
    "DataParallelStrategy": "dp",
}


def _of_lightning(given: Value) -> Fact | None:
    """The strategy that Lightning or Fabric is given: a name, or one of their objects; None where it is neither."""
    text = plain(given)
    if isinstance(text, str):
        kind = _NAMED.get(text) or ("ddp" if text.startswith("ddp") else None)
        if text.startswith("deepspeed_stage_"):
            kind = _zero(text.removeprefix("deepspeed_stage_")[:1])
        return Fact(kind, None, "Trainer(strategy=)") if kind else unknown(f"the strategy {text} decides at run time")
    made = [o for o in options_of(given) if isinstance(o, Obj) and o.name.rpartition(".")[2].endswith("Strategy")]
    if not made:
        return (
            None if isinstance(settle(given), Known) else unknown("the strategy that the trainer is given is not known")
        )
    names = {o.name.rpartition(".")[2] for o in made}
    if names == {"DeepSpeedStrategy"}:
        stage = plain(made[0].kwargs.get("stage", Known(2))) if "config" not in made[0].kwargs else None
        kind = None if stage is None else _zero(stage)
    else:
        kind = _OBJECTS.get(next(iter(names))) if len(names) == 1 else None
    how = made[0].kwargs.get("sharding_strategy")
    named = plain(how) or str(getattr(settle(how), "name", "")).rpartition(".")[2] if how is not None else "FULL_SHARD"
    if kind == "fsdp1" and named != "FULL_SHARD":
        return unknown("the strategy FSDPStrategy may shard otherwise than FULL_SHARD")
    if kind is not None:
        site = made[0].site
        return Fact(kind, site.script.location(site.node) if site is not None else None, "Trainer(strategy=)")
    return unknown(f"the strategy {' or '.join(sorted(names))} decides at run time")


def _launched(reading: Reading, launch: Launch) -> Fact | None:
    """The strategy that ``accelerate launch`` is asked for, by its options or its configuration file."""
    if launch.framework != "accelerate":
        return None
    how = "configuration of accelerate" if launch.config else "launch line"
    options = launch.options
    if _on(options, "use-deepspeed"):
        file = options.get("deepspeed-config-file")
        if file is None:
            return Fact(_zero(options.get("zero-stage", "2")), None, how)
        section = (read_config(reading, Known(file)) or {}).get("zero_optimization")
        if not isinstance(section, dict):
            return unknown(f"{file}, the DeepSpeed configuration, is not in the repository or has no zero_optimization")
        return Fact(_zero(section.get("stage", 0)), None, "DeepSpeed configuration")
    if _on(options, "use-fsdp"):
        kind = options.get("fsdp-sharding-strategy", "FULL_SHARD").upper()
        again = options.get("fsdp-reshard-after-forward", "true").lower() in ("true", "full_shard")
        if kind in ("1", "FULL_SHARD") and again:
            return Fact("fsdp2" if options.get("fsdp-version") == "2" else "fsdp1", None, how)
        return unknown(f"accelerate is asked for FSDP that shards otherwise than FULL_SHARD ({kind})")
    if _on(options, "use-megatron-lm"):
        return unknown("accelerate is asked for Megatron-LM")
    return Fact("ddp", None, how) if (launch.world_size or 1) > 1 else None


def _on(options: dict[str, str], name: str) -> bool:
    return options.get(name, "false").lower() == "true"


def _zero(stage: object) -> str:
    return f"zero{stage}" if str(stage) in ("1", "2", "3") else "ddp"


def _world_size(reading: Reading, launch: Launch, gpus: int | None) -> Fact:
    if launch.world_size is not None:
        from_file = launch.config is not None and launch.framework == "accelerate"
        return Fact(launch.world_size, None, "configuration of accelerate" if from_file else "launch line")
    if gpus is not None:
        return Fact(gpus, None, "--gpus")
    for role, name in (("lightning_trainer", "Trainer"), ("fabric", "Fabric")):
        devices = plain(argument_of(reading, role, "devices"))
        if isinstance(devices, int) and devices > 0 and not isinstance(devices, bool):
            nodes = plain(argument_of(reading, role, "num_nodes"), 1)
            return Fact(devices * (nodes if isinstance(nodes, int) else 1), None, f"{name}(devices=)")
    for event in reading.trace.calls("torch.distributed.init_process_group"):
        given = event.kwargs.get("world_size")
        if given is not None and not event.context.shadow and isinstance(plain(given), int) and plain(given) > 0:
            return fact_of(given, "init_process_group", int)
    if launch.framework is not None:
        return unknown("the launch line leaves the number of GPUs to the machine; --gpus says it")
    return unknown("neither a launch line nor --gpus was given")
