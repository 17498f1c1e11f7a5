"""Precision: autocast and its dtype, half-precision weights, settings of trainers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.facts.settings import argument_of, deepspeed_config, trainer_setting, training_arguments
from preflight.source.facts.telling import at, place_of, unknown
from preflight.source.launcher import Launch
from preflight.source.trace import Context
from preflight.source.values import Choice, Ext, Known, Obj, Value, options_of, plain, settle
from preflight.vocabulary.fact import Fact

if TYPE_CHECKING:
    from preflight.source.reading import Reading

AUTOCASTS = ("torch.autocast", "torch.cuda.amp.autocast", "apex.amp.scale_loss")
_DTYPES = {
    "torch.float16": "fp16",
    "torch.half": "fp16",
    "torch.bfloat16": "bf16",
    "torch.float32": "fp32",
    "torch.float": "fp32",
    "torch.float64": "fp64",
    "torch.double": "fp64",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "fp16": "fp16",
    "bf16": "bf16",
    "fp32": "fp32",
    "no": "fp32",
    "16": "fp16",
    "32": "fp32",
}


def facts(reading: Reading, launch: Launch, gpus: int | None, known: dict[str, Fact]) -> dict[str, Fact]:
    """The precision of the training step."""
    return {
        "precision": _trainer(reading)
        or _accelerator(reading, launch)
        or _lightning(reading)
        or _deepspeed(reading)
        or _loop(reading)
    }


def dtype_of(value: Value | None) -> str | None:
    """The short name of a dtype given as a torch attribute or as text."""
    settled = settle(value) if value is not None else None
    if isinstance(settled, Ext):
        return _DTYPES.get(settled.name)
    if isinstance(settled, Known):
        return _DTYPES.get(str(settled.value))
    return None


def _trainer(reading: Reading) -> Fact | None:
    arguments = training_arguments(reading)
    if arguments is None:
        return None
    for name in ("bf16", "fp16"):
        value = trainer_setting(reading, name)
        settled = settle(value) if value is not None else None
        if isinstance(settled, Known):
            if settled.value:
                return Fact(f"autocast-{name}", place_of(settled), settled.how)
        else:  # options that are handed on whole, or a library whose versions differ
            return unknown(f"whether {name} is on is not known")
    return Fact("fp32", place_of(arguments), "default of TrainingArguments")


def _accelerator(reading: Reading, launch: Launch) -> Fact | None:
    if not reading.made("accelerator"):
        return None
    given = argument_of(reading, "accelerator", "mixed_precision")
    settled = settle(given) if given is not None else Known(None)
    if isinstance(settled, Known) and settled.value is None:
        option = launch.options.get("mixed-precision") or launch.environment.get("ACCELERATE_MIXED_PRECISION")
        kind = _DTYPES.get(option or "no")
        how: str | None = "launch line" if option else "default of Accelerator"
        place = place_of(reading.made("accelerator")[0])
    else:
        kind, how, place = dtype_of(settled), getattr(settled, "how", None), place_of(settled)
    if kind is None:
        return unknown("the mixed precision of the accelerator is not known")
    return Fact("fp32" if kind == "fp32" else f"autocast-{kind}", place, how)


def _lightning(reading: Reading) -> Fact | None:
    if not reading.made("lightning_trainer") and not reading.made("fabric"):
        return None
    given = argument_of(reading, "lightning_trainer", "precision") or argument_of(reading, "fabric", "precision")
    text = str(plain(given, "32-true" if given is None else ""))
    table = {
        "32": "fp32",
        "32-true": "fp32",
        "16": "autocast-fp16",
        "16-mixed": "autocast-fp16",
        "bf16": "autocast-bf16",
        "bf16-mixed": "autocast-bf16",
        "bf16-true": "pure-bf16",
        "16-true": "pure-fp16",
        "64": "fp64",
        "64-true": "fp64",
    }
    kind = table.get(text)
    return (
        Fact(kind, place_of(given), "Trainer(precision=)")
        if kind
        else unknown("the precision of the trainer is not known")
    )


def _deepspeed(reading: Reading) -> Fact | None:
    config = deepspeed_config(reading)
    if not config:
        return None
    for key, kind in (("bf16", "bf16"), ("bfloat16", "bf16"), ("fp16", "fp16")):
        section = config.get(key)
        if isinstance(section, dict) and section.get("enabled") not in (None, False):
            return Fact(kind, None, "DeepSpeed configuration")
    return None


def _loop(reading: Reading) -> Fact:
    """The autocast around the forward whose loss is trained, and the dtype of the weights."""
    if not reading.loops:
        return unknown("no training loop was recognised")
    loop = reading.loops[0]
    for event in loop.events:
        if (
            event.name == "()"
            and reading.roles.of(event.receiver) in ("model", "lightning_module")
            and not event.context.shadow
        ):
            kind = autocast_of(event.context)
            if kind is not None:
                return Fact(kind, event.script.location(event.node), "autocast around the forward")
            if autocast_unknown(event.context):
                return unknown("whether the autocast around the forward is on is not known")
            break
    for event in reading.trace.calls(
        "torch.distributed.fsdp.MixedPrecision", "torch.distributed.fsdp.MixedPrecisionPolicy"
    ):
        sharded = dtype_of(event.argument(0, "param_dtype"))
        if sharded in ("bf16", "fp16") and not event.context.shadow:
            # fp32 parameters are kept in shards, and gathered and computed with in the lower precision.
            return at(event, sharded, "mixed precision of FSDP")
    weights = weights_dtype(reading)
    return weights if weights is not None else Fact("fp32", None, "no autocast around the forward")


def autocast_of(context: Context) -> str | None:
    """The precision of the innermost autocast around a place: ``autocast-bf16``; ``fp32`` when it is disabled."""
    for manager in context.withs():
        for option in options_of(settle(manager) if not isinstance(manager, Choice) else manager, limit=2):
            if isinstance(option, Obj) and option.name in AUTOCASTS:
                return autocast_kind(option)
            if isinstance(option, Obj) and option.name.endswith(".autocast") and option.receiver is None:
                return None
            break
    return None


def autocast_unknown(context: Context) -> bool:
    """Whether something that is called an autocast is around a place, whose precision is not known."""
    return any(
        isinstance(option, (Obj, Ext)) and option.name.rpartition(".")[2] == "autocast"
        for manager in context.withs()
        for option in options_of(manager, limit=3)
    )


def autocast_kind(made: Obj) -> str | None:
    """The precision that an autocast object sets."""
    enabled = made.kwargs.get("enabled")
    if made.name == "torch.cuda.amp.autocast" and enabled is None and made.args:
        enabled = made.args[0]
    on = plain(enabled, True) if enabled is not None else True
    if on is False:
        return "fp32"
    dtype = made.kwargs.get("dtype") or made.kwargs.get("cache_dtype")
    if dtype is None:
        dtype = made.argument(1, "dtype")
    if dtype is None:
        device = plain(made.argument(0, "device_type"))
        return "autocast-bf16" if device == "cpu" else "autocast-fp16"
    kind = dtype_of(dtype)
    return f"autocast-{kind}" if kind in ("fp16", "bf16") else ("fp32" if kind == "fp32" else None)


def _is(value: Value | None, model: Obj) -> bool:
    """Whether a value is a model, or what compiles or wraps it."""
    held = settle(value) if value is not None else None
    for _ in range(4):
        if held is model:
            return True
        if not isinstance(held, Obj) or held.kind != "call" or not held.args or not held.name.startswith("torch."):
            return False
        held = settle(held.args[0])
    return False


def weights_dtype(reading: Reading) -> Fact | None:
    """Weights that are cast, loaded, or made in half precision."""
    for model in reading.models[:1]:
        kind = dtype_of(model.kwargs.get("torch_dtype") or model.kwargs.get("dtype"))
        if kind in ("bf16", "fp16", "fp64"):
            return Fact("fp64" if kind == "fp64" else f"pure-{kind}", place_of(model), "dtype of the loaded weights")
        for event in reading.trace.calls(".half", ".bfloat16", ".double", ".to"):
            if event.context.shadow or not _is(event.receiver, model):
                continue
            if event.name != ".to":
                short = {".half": "pure-fp16", ".bfloat16": "pure-bf16", ".double": "fp64"}[event.name]
                return at(event, short, "cast of the model")
            for value in (*event.args, *event.kwargs.values()):
                kind = dtype_of(value) if isinstance(settle(value), Ext) else None
                if kind in ("bf16", "fp16", "fp64"):
                    return at(event, "fp64" if kind == "fp64" else f"pure-{kind}", "cast of the model")
        return _made_in(reading, model)
    return None


def _made_in(reading: Reading, model: Obj) -> Fact | None:
    """The type that ``torch.set_default_dtype`` gives to the weights of a model that is made behind it; None for fp32."""
    before = [
        e for e in reading.trace.calls("torch.set_default_dtype") if e.number < model.number and not e.context.shadow
    ]
    back = any(
        _is(e.receiver, model) and (e.name == ".float" or any(dtype_of(value) == "fp32" for value in e.args))
        for e in reading.trace.calls(".float", ".to")
    )
    if not before or back:
        return None
    last = before[-1]
    kind = dtype_of(last.argument(0, "d"))
    if kind is None or any(frame.kind == "if" and frame.taken is None for frame in last.context.frames()):
        return unknown("the default type of tensors, in which the weights are made, is not known")
    if kind == "fp32":
        return None
    return at(last, "fp64" if kind == "fp64" else f"pure-{kind}", "default type of tensors")
