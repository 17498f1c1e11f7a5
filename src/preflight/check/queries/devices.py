"""Devices: whether a script sends anything to a GPU."""

from __future__ import annotations

from preflight.source.trace import Trace
from preflight.source.values import Ext, Known, Obj, Value, options_of

_MOVERS = (
    ".cuda", ".to_empty", "torch.set_default_device", "torch.set_default_tensor_type", "deepspeed.initialize", "accelerate.Accelerator",
    "lightning.fabric.Fabric", "torch.distributed.fsdp.fully_shard", "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.nn.parallel.DataParallel", "torch.nn.parallel.DistributedDataParallel", "torch.cuda.set_device", "ray.train.torch.prepare_model",
    ".prepare", ".setup", ".distribute", "transformers.Trainer", "lightning.pytorch.Trainer", "jax.jit",
)  # fmt: skip


def named_device(trace: Trace) -> str | None:
    """What a script names as the device of its tensors.

    Returns:
        ``cpu`` where it names the CPU, for good, and nothing else; an empty string where it names no device at all;
        None where something may be sent to a GPU.
    """
    if trace.calls(*_MOVERS):
        return None
    device = ""
    for event in trace.events:
        given = (*event.args, *event.kwargs.values()) if event.name == ".to" else (event.kwargs.get("device"),)
        for value in given:
            for option in options_of(value):
                named = _named(option)
                if named is None:
                    return None  # another device, or one that is not known
                device = named or device
    if any(
        not e.inlined and e.name.rpartition(".")[2] in ("device", "to_device", "move_to")
        for e in trace.events
        if e.name != "torch.device"
    ):
        return None
    return device


def _named(value: Value) -> str | None:
    """``cpu`` where a value names the CPU for good, nothing where it is no device, None for any other device."""
    base: Value = value
    if isinstance(base, Obj) and base.name == "torch.device" and base.args:
        base = base.args[0]
    if isinstance(base, Known):
        if base.value == "cpu" and not base.soft:
            return "cpu"
        return "" if base.value is None or isinstance(base.value, (bool, float)) else None
    return "" if isinstance(base, Ext) else None
