"""Whether the units of a layer are copies of each other after the first steps: equal rows of a weight, with equal gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .pending import Pending, to_host
from .plain import DEVICES, Outside, impossible, simple
from .recorder import Recorder

NAME = "units.alike"
AFTER = 2
"""Steps of an optimizer after which its weights are looked at, once."""
_ROWS = 9
_COLUMNS = 4096


def look(recorder: Recorder, held: Iterable[tuple[Any, Any]]) -> None:
    """Tell of which weights all rows are the same and get the same gradient, once the numbers have come."""
    torch = recorder.torch
    chosen = [(variable.name, tensor) for variable, tensor in held if variable.kind == "parameter" and _fits(tensor)]
    chosen = [(name, tensor) for name, tensor in chosen if tensor.device == chosen[0][1].device]
    if not chosen or impossible(torch):
        return
    with Outside(torch):
        found = torch.stack([_alike(tensor.detach()) & _alike(tensor.grad, True) for _, tensor in chosen])
        told = to_host(torch, found.float())
    names = [name for name, _ in chosen]  # no weight is held until the numbers come
    head = (*recorder.head(), NAME)

    def rows(values: list[list[float]]) -> list[tuple[str, tuple[Any, ...]]]:
        same = [name for name, value in zip(names, values[0], strict=True) if value]
        return [("scalar", (*head, name, 1.0)) for name in same] or [("scalar", (*head, "", 0.0))]

    recorder.later(Pending([told], lambda read: [read[0]]), rows)


def _fits(tensor: Any) -> bool:
    """Whether a weight has several units and a gradient, and can be looked at."""
    gradient = tensor.grad if tensor.is_leaf else None
    if tensor.dim() < 2 or len(tensor) < 2 or not tensor.numel() or gradient is None:
        return False
    if tensor.device.type not in DEVICES or not tensor.is_floating_point():
        return False
    return simple(tensor) and simple(gradient) and bool(gradient.shape == tensor.shape)


def _alike(tensor: Any, some: bool = False) -> Any:
    """Whether the first rows are one and the same; with ``some``, and not all zero."""
    rows = tensor[:_ROWS].reshape(min(_ROWS, len(tensor)), -1)[:, :_COLUMNS]
    same = (rows == rows[:1]).all()
    return same & (rows[0] != 0).any() if some else same
