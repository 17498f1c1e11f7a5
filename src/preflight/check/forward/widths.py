"""Sizes that a layer tells of what it is given, where the operation before it does not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from preflight.check.forward.operation import axis
from preflight.check.forward.tensors import Tensor
from preflight.check.queries.tensors import operation, option
from preflight.source.values import Obj, Seq, Value, plain, settle

if TYPE_CHECKING:
    from preflight.check.forward.follow import Forward

_CONVOLUTION = re.compile(r"^torch\.nn\.Conv(?:Transpose)?([123])d$")


def joined_for(forward: Forward, layer: Obj, given: Value | None) -> bool:
    """Say what tensors side by side are that a layer is given, where not all of them are known; returns whether it can.

    ``conv(torch.cat([x, labels], 1))``: along the other dimensions the parts are alike, and along this one they are as wide
    together as the layer was made for.
    """
    found = settle(given) if given is not None else None
    wanted = _width(layer)
    if wanted is None or not isinstance(found, Obj) or operation(found) not in ("cat", "concat", "concatenate"):
        return False
    place, width = wanted
    listed = settle(found.args[0]) if found.args else None
    dim = plain(option(found, 0, "dim"), 0) if option(found, 0, "dim") is not None else 0
    if not isinstance(listed, Seq) or listed.open or not isinstance(dim, int):
        return False
    parts = [part for item in listed.items if (part := forward.tensor(item)) is not None]
    if not parts or len(parts) == len(listed.items):
        return False
    shape = parts[0].shape
    at = axis(dim, len(shape))
    if at is None or at != axis(place, len(shape)) or any(len(part.shape) != len(shape) for part in parts):
        return False
    if sum(part.shape[at] for part in parts) >= width:
        return False
    whole = (*shape[:at], width, *shape[at + 1 :])
    made: Tensor = forward.new(whole, any(part.graded for part in parts), forward.passes(found.context))
    forward.put(found, made)
    return True


def _width(layer: Obj) -> tuple[int, int] | None:
    """The dimension of its input, counted from the end, that a layer was made for a width of; and that width."""
    convolution = _CONVOLUTION.match(layer.name)
    if convolution is not None:
        place, width = -int(convolution.group(1)) - 1, plain(layer.argument(0, "in_channels"))
    elif layer.name == "torch.nn.Linear":
        place, width = -1, plain(layer.argument(0, "in_features"))
    else:
        return None
    return (place, width) if isinstance(width, int) and not isinstance(width, bool) else None
