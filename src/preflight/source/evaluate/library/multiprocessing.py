"""Processes: what they run is followed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.evaluate.library import Call, Model
from preflight.source.evaluate.library.torch import start_process
from preflight.source.values import Value

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()


@MODEL.call("multiprocessing.Process", "multiprocessing.context.Process")
def _process(m: Machine, c: Call) -> Value | None:
    return start_process(m, c)
