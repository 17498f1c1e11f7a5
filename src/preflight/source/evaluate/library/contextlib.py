"""Context managers made by decorators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.evaluate.library import Call, Model
from preflight.source.values import Value

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()


@MODEL.call("contextlib.ExitStack.enter_context")
def _enter(m: Machine, c: Call) -> Value | None:
    from preflight.source.evaluate.withs import enter

    return enter(m, c.args[0], c.node) if c.args else None
