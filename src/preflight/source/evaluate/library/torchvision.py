"""torchvision: the list of a ``Compose``, which scripts go on filling after it was made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.evaluate.library import Model
from preflight.source.values import Obj, Seq, Value, settle

if TYPE_CHECKING:
    import ast

    from preflight.source.evaluate.machine import Machine

MODEL = Model()


@MODEL.attribute("torchvision.transforms.Compose.transforms", "torchvision.transforms.v2.Compose.transforms")
def _steps(m: Machine, base: Value, name: str, node: ast.AST, key: Value | None) -> Value | None:
    """The list itself, so that what is appended to it is among the steps."""
    given = base.argument(0, "transforms") if isinstance(base, Obj) else None
    held = settle(given) if given is not None else None
    return held if isinstance(held, Seq) and held.kind == "list" else None
