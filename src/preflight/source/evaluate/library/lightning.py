"""Lightning and Fabric: the trainer calls the module's steps; Fabric hands back what it sets up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.evaluate.library import Call, Model
from preflight.source.trace import Context
from preflight.source.values import Func, Known, Obj, Seq, Value, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()
_T = "lightning.pytorch.Trainer."
_F = "lightning.fabric.Fabric."


@MODEL.call(_T + "fit")
def _fit(m: Machine, c: Call) -> Value | None:
    """What ``fit`` calls, in order: the optimizers, then a loop of training steps, then validation."""
    from preflight.source.evaluate.calls import call_method

    module, data = c.argument(0, "model"), c.argument(1, "train_dataloaders") or c.kwargs.get("datamodule")
    obj = settle(module) if module is not None else None
    if not isinstance(obj, Obj) or obj.cls is None:
        return None
    _hooks(m, settle(data) if data is not None else None, c)
    if isinstance(obj.cls.lookup("setup"), Func):
        call_method(m, obj, "setup", [Known("fit")], {}, c.node)
    if isinstance(obj.cls.lookup("configure_optimizers"), Func):
        call_method(m, obj, "configure_optimizers", [], {}, c.node)
    outer = m.context
    script = m.frame.module.script
    for step, around in _LOOPS.items():
        if not isinstance(obj.cls.lookup(step), Func):
            continue
        m.context = Context(outer, "loop", c.node, script, data)
        if step == "validation_step":
            m.context = Context(m.context, "with", c.node, script, m.made("call", "torch.no_grad", c.node))
        for name in around:
            if isinstance(obj.cls.lookup(name), Func):
                call_method(m, obj, name, _given(m, name, data, c), {}, c.node)
    m.context = outer
    return Known(None)


_LOOPS = {
    "training_step": (
        *("on_train_start", "on_train_epoch_start", "on_train_batch_start", "training_step", "on_train_batch_end"),
        *("training_epoch_end", "on_train_epoch_end"),
    ),
    "validation_step": (
        *("on_validation_start", "on_validation_epoch_start", "on_validation_batch_start", "validation_step"),
        *("on_validation_batch_end", "validation_epoch_end", "on_validation_epoch_end", "on_validation_end"),
    ),
}
"""What a trainer calls around each step, in its order.

Source: the hooks of ``LightningModule`` in Lightning's documentation; ``..._epoch_end`` without ``on_`` until version 1.9.
"""


def _given(m: Machine, name: str, data: Value | None, c: Call) -> list[Value]:
    """What a hook is given: the batch and its index where it is about one, before them what the step gave."""
    gave = name.endswith("_batch_end") or name in ("training_epoch_end", "validation_epoch_end")
    outputs: list[Value] = [m.unknown("what the steps gave", c.node)] if gave else []
    if "_batch_" not in name and not name.endswith("_step"):
        return outputs
    return [*outputs, m.made("item", "", c.node, receiver=data), m.unknown("index of the batch", c.node)]


def _hooks(m: Machine, data: Value | None, c: Call) -> None:
    from preflight.source.evaluate.calls import call_method

    if isinstance(data, Obj) and data.cls is not None:
        for name in ("prepare_data", "setup", "train_dataloader", "val_dataloader"):
            member = data.cls.lookup(name)
            if isinstance(member, Func):
                call_method(m, data, name, [Known("fit")] if name == "setup" else [], {}, c.node)


@MODEL.call(_F + "setup", _F + "setup_module", _F + "setup_optimizers", _F + "setup_dataloaders")
def _setup(m: Machine, c: Call) -> Value | None:
    if len(c.args) == 1:
        return c.args[0]
    return Seq(list(c.args), "tuple", m.site(c.node), c.open) if c.args else None
