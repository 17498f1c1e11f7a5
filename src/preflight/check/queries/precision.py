"""Mixed precision: the autocast regions around a place, and the gradient scalers of a script."""

from __future__ import annotations

from preflight.check.context import Context
from preflight.source.trace import Context as Frame
from preflight.source.trace import Event, name_of
from preflight.source.values import Choice, Ext, Known, Obj, Phi, Value, options_of, settle

AUTOCASTS = ("torch.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast")
_USUAL = ("init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled")
# What scalers take, in order: the sharded one has its factors the other way round.
_SETTINGS = {
    "torch.cuda.amp.GradScaler": _USUAL,
    "torch.amp.GradScaler": ("device", *_USUAL),
    "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler": (
        "device", "init_scale", "backoff_factor", "growth_factor", "growth_interval", "enabled",
    ),
}  # fmt: skip
SCALERS = tuple(_SETTINGS)
_HALF = frozenset({"torch.float16", "torch.half"})
_BRAIN = frozenset({"torch.bfloat16"})


class Region:
    """One autocast block.

    Attributes:
        manager: The context manager.
        device: ``cuda``, ``cpu`` ..., or None where it is not known.
        dtype: ``float16``, ``bfloat16`` ..., or None where it is not known.
        enabled: Whether it is on: True, False, or None where an option or a value decides that is not known.
    """

    __slots__ = ("device", "dtype", "enabled", "manager")

    def __init__(self, manager: Value) -> None:
        """Read the arguments."""
        self.manager = manager
        made = isinstance(manager, Obj)
        cuda = name_of(manager) == "torch.cuda.amp.autocast"
        cpu = name_of(manager) == "torch.cpu.amp.autocast"
        given = manager.argument(1, "dtype") if isinstance(manager, Obj) else None
        switch = manager.argument(0 if cuda or cpu else 2, "enabled") if isinstance(manager, Obj) else None
        where = manager.argument(0, "device_type") if isinstance(manager, Obj) and not (cuda or cpu) else None
        self.device = "cuda" if cuda else "cpu" if cpu else device_of(where)
        self.dtype = dtype_of(given)
        if given is None or (isinstance(settle(given), Known) and settle(given).value is None):  # type: ignore[attr-defined]
            self.dtype = {"cuda": "float16", "cpu": "bfloat16"}.get(self.device or "")
        self.enabled: bool | None = True
        if made and isinstance(manager, Obj) and manager.open_args:
            self.enabled = None
        if switch is not None:
            self.enabled = _truth(switch)


def _truth(value: Value) -> bool | None:
    """Whether a switch is on; one that is off by default and that an option turns on counts as not known."""
    base = settle(value)
    if not isinstance(base, Known) or (base.soft and not base.value):
        return None
    return bool(base.value)


def dtype_of(value: Value | None) -> str | None:
    """The name of a dtype, without ``torch.``; None where the defaults do not say."""
    base = settle(value) if value is not None else None
    name = base.name if isinstance(base, Ext) else None
    if name in _HALF:
        return "float16"
    if name in _BRAIN:
        return "bfloat16"
    if name is not None and name.startswith("torch."):
        return name.partition(".")[2]
    return None


def device_of(value: Value | None) -> str | None:
    """The kind of a device that is given as text or as ``torch.device``: ``cuda``, ``cpu``."""
    base = settle(value) if value is not None else None
    if isinstance(base, Obj) and base.name == "torch.device" and base.kind == "call":
        return device_of(base.argument(0, "type") or base.argument(0, "device"))
    if isinstance(base, Known) and isinstance(base.value, str):
        return base.value.partition(":")[0]
    if isinstance(base, Known) and isinstance(base.value, int) and not isinstance(base.value, bool):
        return "cuda"
    return None


def regions(frame: Frame | None) -> list[Region]:
    """The autocast blocks around a place, innermost first."""
    found = []
    for manager in frame.withs() if frame is not None else ():
        base = settle(manager)
        if isinstance(base, (Choice, Phi)):
            base = next((o for o in options_of(base) if name_of(o) in AUTOCASTS), base)
            if name_of(base) in AUTOCASTS:
                region = Region(base)
                region.enabled = None
                found.append(region)
        elif name_of(base) in AUTOCASTS:
            found.append(Region(base))
    return found


def region_of(frame: Frame | None) -> Region | None:
    """The autocast block that decides at a place: the innermost, unless it is surely off."""
    found = regions(frame)
    return found[0] if found and found[0].enabled is not False else None


def scalers(context: Context) -> list[Obj]:
    """Gradient scalers of PyTorch that the script makes."""
    return [s for s in context.reading.made("scaler") if s.name in SCALERS]


def is_scaler(context: Context, value: Value | None) -> bool:
    """Whether a value is a gradient scaler."""
    return context.roles.of(value) == "scaler"


def scaler_setting(scaler: Obj, name: str) -> Value | None:
    """What a scaler was given for a setting, by name or by position; None where it was not."""
    names = _SETTINGS.get(scaler.name, ())
    return scaler.argument(names.index(name), name) if name in names else scaler.kwargs.get(name)


def enabled(scaler: Obj) -> bool | None:
    """Whether a scaler is on: True, False, or None where that is not known."""
    switch = scaler_setting(scaler, "enabled")
    return True if switch is None else _truth(switch)


def scaled_by(context: Context, backward: Event) -> Obj | None:
    """The scaler whose scaling a backward runs through."""
    base = settle(backward.receiver) if backward.receiver is not None else None
    if isinstance(base, Obj) and base.name == ".scale" and is_scaler(context, base.receiver):
        for option in options_of(base.receiver):
            if isinstance(option, Obj):
                return option
    return None
