"""Between which modules a tensor loses its graph on the way."""

from __future__ import annotations

from preflight.monitor.window import Call, Window


def cuts_between(calls: list[Call], window: Window) -> dict[str, str]:
    """By module whose output has a graph: the one called next, where that takes in a tensor of its form without a graph.

    A module that takes in something with a graph at another call of the window is given noise or a target beside it.
    """
    given, made = ({one.call: one for one in window.tensors if one.position == word} for word in ("in0", "out0"))
    data = {tuple(shape) for batch in window.batches for shape in batch.shapes}
    joined = {one.object for one in given.values() if one.requires_grad}
    ended = sorted(calls, key=lambda call: call.e)
    found: dict[str, str] = {}
    at = 0
    for call in sorted(calls, key=lambda call: call.q):
        while at < len(ended) and ended[at].e < call.q:
            at += 1
        taken, left = given.get(call.q), made.get(ended[at - 1].q) if at else None
        if taken is None or left is None or taken.requires_grad or not left.requires_grad:
            continue
        alike = (taken.shape, taken.dtype) == (left.shape, left.dtype) and tuple(taken.shape) not in data
        if alike and call.object not in joined and call.context.startswith("grad"):
            found[ended[at - 1].object] = call.object
    return found
