"""Methods whose meaning does not depend on the exact type of the object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.evaluate.library import Call, Model
from preflight.source.values import Known, Obj, Unknown, Value, options_of, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()
_MODULES = ("torch.nn.", "torchvision.models.", "timm.", "transformers.Auto", "lightning.pytorch.LightningModule", "diffusers.")


def is_module(value: Value | None) -> bool:
    """Whether a thing is a neural-network module: by its class, or by how it was made."""
    for option in options_of(value, limit=3):
        if isinstance(option, Obj):
            if option.cls is not None:
                if any(n.startswith(_MODULES) or n.endswith("PreTrainedModel") for n in option.cls.external_bases()):
                    return True
                continue
            name = option.name
            if option.kind in {"call", "param", "copy"} and name.startswith(_MODULES) and not name.startswith(
                ("torch.nn.functional", "torch.nn.utils", "torch.nn.init", "torch.nn.Parameter", "timm.data", "timm.optim", "timm.scheduler", "timm.utils", "timm.loss", "diffusers.optimization")
            ):
                return True
            if option.kind in {"call", "instance"} and name.endswith((".from_pretrained", ".from_config")):
                return not any(part in name for part in ("Tokenizer", "Config", "Processor", "FeatureExtractor", "Scheduler"))
    return False


@MODEL.call(
    ".to", ".cuda", ".cpu", ".half", ".float", ".double", ".bfloat16", ".train", ".eval", ".requires_grad_", ".apply",
    ".to_empty", ".share_memory", ".type",
)
def _self(m: Machine, c: Call) -> Value | None:
    """Module methods return the module itself (tensors get a new value)."""
    return c.receiver if c.receiver is not None and is_module(c.receiver) else None


@MODEL.call(".super.__init__")
def _super_init(m: Machine, c: Call) -> Value | None:
    """``super().__init__(...)`` of a library base: arguments of a record become its fields."""
    base = settle(c.receiver) if c.receiver is not None else None
    if isinstance(base, Obj):
        if base.cls is not None and any(n.endswith("Config") for n in base.cls.external_bases()):
            base.attrs.update(c.kwargs)
        base.attrs.setdefault("<super>", c.event.result or Known(True))
    return Known(None)


@MODEL.call(".__enter__")
def _enter(m: Machine, c: Call) -> Value | None:
    return c.receiver


@MODEL.call(".size", ".numel", ".dim", ".ndimension")
def _size(m: Machine, c: Call) -> Value | None:
    if isinstance(settle(c.receiver) if c.receiver is not None else None, Unknown):
        return Unknown("a size that is not known before the data is read", m.site(c.node), (c.receiver,) if c.receiver else (), name="size")
    return None
