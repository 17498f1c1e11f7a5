"""Between which modules a tensor loses its graph on the way."""

from __future__ import annotations

from bisect import bisect_left
from operator import itemgetter

from preflight.monitor.window import ORDER, Call, Seen, Window

_END = itemgetter(Call._fields.index("e"))


def cuts_between(calls: list[Call], window: Window) -> dict[str, str]:
    """By module whose output has a graph: the one called next, where that takes in a tensor of its form without a graph.

    A module that takes in something with a graph at another call of the window is given noise or a target beside it.
    """
    without = {one.call: one for one in window.tensors if one.position == "in0" and not one.requires_grad}
    fed = [call for call in calls if call.q in without and call.context.startswith("grad")]
    found: dict[str, str] = {}
    if not fed:
        return found
    made = {one.call: one for one in window.tensors if one.position == "out0" and one.requires_grad}
    ended = sorted(calls, key=_END)
    ends = list(map(_END, ended))
    for call in sorted(fed, key=ORDER):
        at = bisect_left(ends, call.q)
        taken, left = without[call.q], made.get(ended[at - 1].q) if at else None
        if left is None or (taken.shape, taken.dtype) != (left.shape, left.dtype):
            continue
        if not _is_data(taken, window) and not _is_joined(call.object, window):
            found[ended[at - 1].object] = call.object
    return found


def _is_data(taken: Seen, window: Window) -> bool:
    return any(tuple(shape) == tuple(taken.shape) for batch in window.batches for shape in batch.shapes)


def _is_joined(module: str, window: Window) -> bool:
    """Whether a module takes in something with a graph at some call of the window."""
    return any(one.object == module and one.position == "in0" and one.requires_grad for one in window.tensors)
