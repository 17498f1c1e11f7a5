"""Lists that grow with the run: which ones are bounded."""

from __future__ import annotations

import ast

from preflight.source.values import Obj, Value, settle


def bounded(value: Value | None) -> bool:
    """Whether a list drops old entries by itself: ``deque(maxlen=100)``."""
    base = settle(value) if value is not None else None
    if isinstance(base, Obj):
        return base.name == "collections.deque" and base.argument(1, "maxlen") is not None
    node = base.site.node if base is not None and base.site is not None else None
    return isinstance(node, ast.Call) and (len(node.args) > 1 or any(k.arg == "maxlen" for k in node.keywords))
