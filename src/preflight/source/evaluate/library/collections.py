"""Ordered dictionaries, default dictionaries, counters and queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.evaluate.iteration import iterate
from preflight.source.evaluate.library import Call, Model, library_call
from preflight.source.values import Dict, Seq, Value

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()


@MODEL.call("collections.OrderedDict")
def _ordered(m: Machine, c: Call) -> Value | None:
    return library_call(m, Call("builtins.dict", None, c.args, c.kwargs, c.node, c.open, c.event))


@MODEL.call("collections.defaultdict", "collections.Counter")
def _open_dict(m: Machine, c: Call) -> Value | None:
    return Dict({}, m.site(c.node), True)


@MODEL.call("collections.deque")
def _deque(m: Machine, c: Call) -> Value | None:
    if not c.args:
        made = Seq([], "list" if "maxlen" not in c.kwargs else "deque", m.site(c.node))
        made.open = "maxlen" in c.kwargs
        return made
    items, _ = iterate(m, c.args[0], c.node)
    bounded = len(c.args) > 1 or "maxlen" in c.kwargs
    return Seq(list(items or []), "deque" if bounded else "list", m.site(c.node), items is None or bounded)
