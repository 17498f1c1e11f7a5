"""Lists that grow with the run: which ones are bounded, and which are emptied on the way."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from preflight.source.nodes import encloses
from preflight.source.values import Obj, Value, options_of, settle

if TYPE_CHECKING:
    from preflight.check.context import Context


def bounded(value: Value | None) -> bool:
    """Whether a list drops old entries by itself: ``deque(maxlen=100)``."""
    base = settle(value) if value is not None else None
    if isinstance(base, Obj):
        return base.name == "collections.deque" and base.argument(1, "maxlen") is not None
    node = base.site.node if base is not None and base.site is not None else None
    return isinstance(node, ast.Call) and (len(node.args) > 1 or any(k.arg == "maxlen" for k in node.keywords))


def emptied(context: Context, holder: Value) -> bool:
    """Whether a list is emptied or replaced again somewhere."""
    for event in context.trace.calls(".clear", ".pop", ".popleft", ".remove"):
        if any(o is holder for o in options_of(event.receiver)):
            return True
    return _deleted(context, holder)


def _deleted(context: Context, holder: Value) -> bool:
    """Whether ``del items[:]`` is written for the name or attribute that the list is assigned to."""
    site = holder.site
    if site is None:
        return True
    names: set[str] = set()
    for script in context.reading.scripts:
        for node in script.nodes(ast.Assign):
            if encloses(node.value, site.node):
                names |= {t.attr if isinstance(t, ast.Attribute) else getattr(t, "id", "") for t in node.targets}
    assigned = 0
    for script in context.reading.scripts:
        for deletion in script.nodes(ast.Delete):
            for target in deletion.targets:
                base = target.value if isinstance(target, ast.Subscript) else target
                if (base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", None)) in names:
                    return True
        for node in script.nodes(ast.Assign):
            if isinstance(node.value, (ast.List, ast.Call)):
                for t in node.targets:
                    assigned += (t.attr if isinstance(t, ast.Attribute) else getattr(t, "id", None)) in names
    return assigned > 1
