"""Another optimizer in the place of the script's: its states have another size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from preflight.dryrun.virtual.absent.standins.bitsandbytes import optim as small

if TYPE_CHECKING:
    from preflight.dryrun.virtual.changes import Change, Run

_ADAFACTOR = {
    "beta2_decay": -0.8,
    "eps": (None, 1e-3),
    "d": 1.0,
    "weight_decay": 0.0,
    "foreach": None,
    "maximize": False,
}
_SGD = {
    "momentum": 0.9, "dampening": 0.0, "nesterov": False, "weight_decay": 0.0, "foreach": None, "maximize": False,
    "differentiable": False, "fused": None,
}  # fmt: skip
KINDS: dict[str, tuple[type, dict[str, Any]]] = {
    "adam8bit": (small.AdamW8bit, {}),
    "paged8bit": (small.PagedAdamW8bit, {}),
    "adafactor": (torch.optim.Adafactor, _ADAFACTOR),
    "sgd": (torch.optim.SGD, _SGD),
}
"""What an optimizer can be replaced by, with the settings that its class asks of a group."""
_ADAPTIVE = ("adam", "adagrad", "adadelta", "rmsprop", "lamb", "lion", "adan", "ademamix")
_SHARED = ("lr", "weight_decay", "betas", "momentum")


def install(change: Change, run: Run) -> None:
    """Give every adaptive optimizer another class as it is made; options: ``to``, one of ``KINDS``."""
    kind, settings = KINDS[change.options["to"]]
    begin = torch.optim.Optimizer.__init__

    def made(optimizer: Any, params: Any, defaults: dict[str, Any]) -> None:
        name = type(optimizer).__name__
        if not any(part in name.lower() for part in _ADAPTIVE):
            change.cannot(f"the optimizer is {name}")
            begin(optimizer, params, defaults)
            return
        groups = list(params)
        if groups and isinstance(groups[0], dict):
            groups = [{key: value for key, value in g.items() if key in ("params", *_SHARED)} for g in groups]
        optimizer.__class__ = kind
        kept = {key: defaults[key] for key in _SHARED if key in defaults and key not in settings}
        if hasattr(kind, "choose"):
            optimizer.choose({})
        begin(optimizer, groups, {**kept, **settings})
        change.did(f"{name} became {kind.__name__}")

    torch.optim.Optimizer.__init__ = made
