"""Accelerate: ``prepare`` hands back what it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.evaluate.library import Call, Model
from preflight.source.values import Seq, Value

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()
_A = "accelerate.Accelerator."


@MODEL.call(
    _A + "prepare", _A + "prepare_model", _A + "prepare_data_loader", _A + "prepare_optimizer", _A + "prepare_scheduler"
)
def _prepare(m: Machine, c: Call) -> Value | None:
    if len(c.args) == 1:
        return c.args[0]
    return Seq(list(c.args), "tuple", m.site(c.node), c.open) if c.args else None


@MODEL.call(_A + "unwrap_model", "accelerate.utils.extract_model_from_parallel", _A + "free_memory")
def _unwrap(m: Machine, c: Call) -> Value | None:
    return c.args[0] if c.args else None
