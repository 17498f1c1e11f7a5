"""timm: its scaler, which does several things in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.evaluate.library import Call, Model
from preflight.source.trace import Context
from preflight.source.values import Known, Seq, Value, plain, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()


@MODEL.call("timm.utils.NativeScaler.()")
def _scale_and_step(m: Machine, c: Call) -> Value | None:
    """``scaler(loss, optimizer, clip_grad=..., parameters=...)``: backward, clipping, step and update in one call."""
    loss, optimizer = c.argument(0, "loss"), c.argument(1, "optimizer")
    if loss is None or optimizer is None or c.receiver is None:
        return None
    m.event(".backward", c.node, None, loss, [], {})
    update = c.kwargs.get("need_update")
    if update is None:
        _update(m, c, optimizer)
        return m.known(None)
    from preflight.source.evaluate.branches import decide

    needed, _ = decide(m, update)
    if needed is not False:
        outer = m.context
        m.context = Context(outer, "if", c.node, m.frame.module.script, update, True, needed)
        _update(m, c, optimizer)
        m.context = outer
    return m.known(None)


_TUPLES = {"to_1tuple": 1, "to_2tuple": 2, "to_3tuple": 3, "to_4tuple": 4}


@MODEL.call(
    *(
        f"timm.{home}.{name}"
        for home in ("layers", "layers.helpers", "models.layers", "models.layers.helpers")
        for name in _TUPLES
    )
)
def _ntuple(m: Machine, c: Call) -> Value | None:
    """One number for all sides; what is several already stays as it is."""
    given = settle(c.args[0]) if c.args else None
    if isinstance(given, Known) and isinstance(given.value, (int, float)):
        return Seq([given] * _TUPLES[c.name.rpartition(".")[2]], "tuple", m.site(c.node))
    return given if isinstance(given, Seq) else None


def _update(m: Machine, c: Call, optimizer: Value) -> None:
    """Clipping, step and update."""
    assert c.receiver is not None
    clip = c.argument(2, "clip_grad")
    if clip is not None and plain(clip, 0.0) is not None:
        m.event(".unscale_", c.node, None, c.receiver, [optimizer], {})
        m.event(
            "timm.utils.dispatch_clip_grad", c.node, None, None, [c.argument(4, "parameters") or optimizer, clip], {}
        )
    m.event(".step", c.node, None, c.receiver, [optimizer], {})
    m.event(".update", c.node, None, c.receiver, [], {})
