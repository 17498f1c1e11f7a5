"""timm: sizes that its layers derive from their arguments."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from preflight.source.evaluate.library import Call, Model
from preflight.source.trace import Context
from preflight.source.values import Obj, Value, plain

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()
_FOLDERS = ("timm.models.vision_transformer", "timm.layers", "timm.models.layers")


def _sides(value: Value | None, default: int) -> tuple[int, int] | None:
    found = plain(value) if value is not None else default
    if isinstance(found, int):
        return found, found
    return (found[0], found[1]) if isinstance(found, (list, tuple)) and len(found) == 2 else None


@MODEL.attribute(
    *(
        f"{folder}.PatchEmbed.{name}"
        for folder in _FOLDERS
        for name in ("num_patches", "patch_size", "grid_size", "img_size")
    )
)
def _patches(m: Machine, base: Value, name: str, node: ast.AST, key: Value | None) -> Value | None:
    """``PatchEmbed(img_size=224, patch_size=16)`` cuts an image into (224 / 16)^2 patches."""
    if not isinstance(base, Obj):
        return None
    image, patch = _sides(base.argument(0, "img_size"), 224), _sides(base.argument(1, "patch_size"), 16)
    if image is None or patch is None or 0 in patch:
        return None
    grid = (image[0] // patch[0], image[1] // patch[1])
    wanted = name.rpartition(".")[2]
    if wanted == "num_patches":
        return m.known(grid[0] * grid[1], node, "computed")
    return m.lift({"patch_size": patch, "grid_size": grid, "img_size": image}[wanted], node)


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
