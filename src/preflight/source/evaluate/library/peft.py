"""PEFT: what prepares a quantised model for training hands it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.evaluate.library import Call, Model
from preflight.source.values import Value

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()


@MODEL.call("peft.prepare_model_for_kbit_training", "peft.prepare_model_for_int8_training")
def _prepare(m: Machine, c: Call) -> Value | None:
    return c.argument(0, "model")
