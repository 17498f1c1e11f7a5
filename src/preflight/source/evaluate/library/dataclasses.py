"""Records: ``asdict``, ``replace``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.evaluate.iteration import copy_of
from preflight.source.evaluate.library import Call, Model
from preflight.source.values import Dict, Obj, Value, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()


@MODEL.call("dataclasses.asdict")
def _asdict(m: Machine, c: Call) -> Value | None:
    base = settle(c.args[0]) if c.args else None
    return Dict(dict(base.attrs), m.site(c.node), base.open_args) if isinstance(base, Obj) else None


@MODEL.call("dataclasses.replace")
def _replace(m: Machine, c: Call) -> Value | None:
    base = settle(c.args[0]) if c.args else None
    if not isinstance(base, Obj):
        return None
    made = copy_of(m, base, c.node)
    if isinstance(made, Obj):
        made.attrs = {**base.attrs, **c.kwargs}
    return made
