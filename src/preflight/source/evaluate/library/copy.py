"""Copies: a copy of a module is a second module of the same make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.evaluate.iteration import copy_of, duplicate
from preflight.source.evaluate.library import Call, Model
from preflight.source.values import Dict, Obj, Seq, Value, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()


@MODEL.call("copy.deepcopy")
def _deepcopy(m: Machine, c: Call) -> Value | None:
    return duplicate(m, c.args[0], c.node) if c.args else None


@MODEL.call("copy.copy")
def _copy(m: Machine, c: Call) -> Value | None:
    if not c.args:
        return None
    base = settle(c.args[0])
    if isinstance(base, Obj):
        return copy_of(m, base, c.node)
    if isinstance(base, Seq):
        return Seq(list(base.items), base.kind, m.site(c.node), base.open)
    if isinstance(base, Dict):
        return Dict(dict(base.entries), m.site(c.node), base.open, base.name)
    return base
