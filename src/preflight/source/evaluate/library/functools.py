"""``partial``, ``wraps``, ``reduce`` and caches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.evaluate.iteration import iterate
from preflight.source.evaluate.library import Call, Model
from preflight.source.values import Partial, Value

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()


@MODEL.call("functools.partial", "functools.partialmethod")
def _partial(m: Machine, c: Call) -> Value | None:
    return Partial(c.args[0], c.args[1:], c.kwargs, m.site(c.node)) if c.args else None


@MODEL.call("functools.lru_cache", "functools.cache", "functools.update_wrapper")
def _same(m: Machine, c: Call) -> Value | None:
    return c.args[0] if c.args and not c.kwargs else None


@MODEL.call("functools.reduce")
def _reduce(m: Machine, c: Call) -> Value | None:
    from preflight.source.evaluate.calls import call

    if len(c.args) < 2:
        return None
    items, _ = iterate(m, c.args[1], c.node)
    if items is None or len(items) > 256:
        return None
    pending = [*c.args[2:3], *items]
    if not pending:
        return None
    result = pending[0]
    for item in pending[1:]:
        result = call(m, c.args[0], [result, item], {}, c.node)
    return result
