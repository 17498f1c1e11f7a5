"""Iterator algebra over known items."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from preflight.source.evaluate.iteration import iterate
from preflight.source.evaluate.library import Call, Model
from preflight.source.values import Seq, Value, plain

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()
MAX_ITEMS = 20_000


@MODEL.call("itertools.chain", "itertools.chain.from_iterable")
def _chain(m: Machine, c: Call) -> Value | None:
    sources = c.args
    if c.name.endswith("from_iterable") and c.args:
        outer, element = iterate(m, c.args[0], c.node)
        sources = outer if outer is not None else [element] if element is not None else []
    items: list[Value] = []
    open_ = c.open
    for source in sources:
        more, element = iterate(m, source, c.node)
        if more is None:
            open_ = True
            if element is not None:
                items.append(element)
        else:
            m.tick(len(more) // 8)
            items.extend(more)
        if len(items) > MAX_ITEMS:
            items, open_ = items[:MAX_ITEMS], True
            break
    made = m.made("call", "itertools.chain", c.node, c.args, c.kwargs)
    return Seq(items, "generator", m.site(c.node)) if not open_ else made


@MODEL.call("itertools.product")
def _product(m: Machine, c: Call) -> Value | None:
    columns = [iterate(m, a, c.node)[0] for a in c.args]
    size = 1
    for column in columns:
        size *= len(column) if column is not None else 10_000
    if size > 1024 or any(column is None for column in columns):
        return None
    rows = itertools.product(*(column for column in columns if column is not None))
    return Seq([Seq(list(row), "tuple") for row in rows], "list", m.site(c.node))


@MODEL.call("itertools.repeat")
def _repeat(m: Machine, c: Call) -> Value | None:
    times = plain(c.argument(1, "times"))
    if isinstance(times, int) and times <= 1024 and c.args:
        return Seq([c.args[0]] * times, "list", m.site(c.node))
    return None
