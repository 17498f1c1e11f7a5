"""Weights in half precision that are too large for the updates of their optimizer: these are rounded away.

Adam and its kin change a weight by about the rate. A number in bfloat16 has eight bits: beside one of 0.02, a change of less
than 0.00006 leaves no trace. The values of some weights of each matrix are held against the largest rate that its group is
known to come to, once, before the second step of an optimizer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from .groups import number_of
from .pending import Pending, to_host
from .plain import DEVICES, Outside, impossible, simple
from .recorder import Recorder

NAME = "weights.too_large"
AT = 1
"""Steps of an optimizer before which nothing is looked at: by then its schedule is made."""
_AS_LARGE_AS_THE_RATE = ("Adam", "AdamW", "Adamax", "NAdam", "RAdam")
_PEAKS = ("lr", "initial_lr", "max_lr")
_MOST_MATRICES = 32
_LEAST = 64
_LOOKED_AT = 4096  # numbers of a matrix


def look(recorder: Recorder, optimizer: Any, held: Iterable[tuple[Any, Any]]) -> None:
    """Tell of each matrix in half precision which share of its weights is too large, and which share of all matrices it is."""
    torch = recorder.torch
    kind = type(optimizer)
    if kind.__name__ not in _AS_LARGE_AS_THE_RATE or not kind.__module__.startswith("torch.optim"):
        return
    matrices = [(variable.name, one) for variable, one in held if variable.kind == "parameter" and _fits(one)]
    numbers = sum(one.numel() for _, one in matrices)
    peaks = _peaks(optimizer)
    half = [pair for pair in matrices if pair[1].dtype in (torch.bfloat16, torch.float16) and peaks.get(id(pair[1]))]
    half = [pair for pair in half if pair[1].device == half[0][1].device][:_MOST_MATRICES]
    if not half or impossible(torch):
        return
    with Outside(torch):
        shares = [_too_large(torch, one, peaks[id(one)]) for _, one in half]
        told = to_host(torch, torch.stack(shares))
    names = [(name, one.numel() / numbers) for name, one in half]  # no weight is held until the numbers come
    head = (*recorder.head(), NAME)

    def rows(values: list[list[float]]) -> list[tuple[str, tuple[Any, ...]]]:
        pairs = zip(names, values[0], strict=True)
        return [("scalar", (*head, f"{name}#{of:.6f}", value)) for (name, of), value in pairs]

    recorder.later(Pending([told], lambda read: [read[0]]), rows)


def _fits(tensor: Any) -> bool:
    """Whether a tensor is a matrix with a gradient that can be looked at."""
    if tensor.dim() < 2 or tensor.numel() < _LEAST or not tensor.is_leaf or tensor.grad is None:
        return False
    return tensor.device.type in DEVICES and tensor.is_floating_point() and simple(tensor)


def _peaks(optimizer: Any) -> dict[int, float]:
    """By parameter, the largest rate that its group is known to come to.

    A rate that is neither the one given nor a schedule's was set by hand, and may be on its way up.
    """
    found: dict[int, float] = {}
    given = optimizer.defaults.get("lr")
    for group in optimizer.param_groups:
        if not any(word in group for word in _PEAKS[1:]) and number_of(group.get("lr")) != number_of(given):
            continue
        rates = [rate for word in _PEAKS if (rate := number_of(group.get(word))) is not None]
        found.update((id(one), max(rates, default=0.0)) for one in group["params"])
    return found


def _too_large(torch: Any, tensor: Any, rate: float) -> Any:
    """The share of the numbers beside which a change by the rate is less than half of what they can be told apart by."""
    flat = tensor.detach().reshape(-1)
    some = flat[:: max(1, flat.numel() // _LOOKED_AT)]
    least = 2.0 ** (math.floor(math.log2(2 * rate / torch.finfo(tensor.dtype).eps)) + 1)
    return (some.abs() >= least).float().mean()
