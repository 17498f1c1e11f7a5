"""Assignment: names, attributes, items, unpacking."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from preflight.source.evaluate.drawings import drawing_of
from preflight.source.evaluate.expressions import evaluate
from preflight.source.evaluate.iteration import items_of_record
from preflight.source.evaluate.overwritten import overwrite, read_from_file
from preflight.source.trace import ITEMS
from preflight.source.values import (
    Choice,
    Class,
    Dict,
    Func,
    Known,
    Module,
    Obj,
    Phi,
    Seq,
    Unknown,
    Value,
    options_of,
    settle,
)

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine


def assign(m: Machine, target: ast.expr, value: Value, node: ast.AST) -> None:
    """Assign a value to a target of any form."""
    if isinstance(target, ast.Name):
        m.bind(target.id, value)
    elif isinstance(target, ast.Attribute):
        set_attribute(m, evaluate(m, target.value), target.attr, value, node)
    elif isinstance(target, ast.Subscript):
        set_item(m, evaluate(m, target.value), evaluate(m, target.slice), value, node)
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(m, target.elts, value, node)
    elif isinstance(target, ast.Starred):
        assign(m, target.value, value, node)


def _unpack(m: Machine, targets: list[ast.expr], value: Value, node: ast.AST) -> None:
    for target, item in zip(targets, spread(m, targets, value, node), strict=True):
        assign(m, target, item, node)


def spread(m: Machine, targets: list[ast.expr], value: Value, node: ast.AST) -> list[Value]:
    """The values that unpacking gives to each target."""
    count = len(targets)
    star = next((i for i, t in enumerate(targets) if isinstance(t, ast.Starred)), None)
    settled = settle(value)
    if isinstance(settled, Choice):
        settled = next((o for o in settled.options if isinstance(o, Seq) and len(o.items) == count), settled)
    record = items_of_record(settled)
    if record is not None:
        settled = Seq(record, "tuple")
    if isinstance(settled, Obj) and settled.name in ("torch.nn.ModuleList", "torch.nn.Sequential"):
        from preflight.source.evaluate.library.torch import module_items

        parts = module_items(m, settled, node)
        settled = Seq(list(parts), "tuple") if parts is not None else settled
    if isinstance(settled, Seq) and not settled.open:
        items = settled.items
        if star is None and len(items) == count:
            return list(items)
        if star is not None and len(items) >= count - 1:
            tail = count - star - 1
            middle = Seq(list(items[star : len(items) - tail]), "list", m.site(node))
            return [*items[:star], middle, *(items[len(items) - tail :] if tail else [])]
    if isinstance(settled, Known) and isinstance(settled.value, str) and len(settled.value) == count and star is None:
        return [m.known(c, node) for c in settled.value]
    return [item_of(m, value, m.known(i), node) for i in range(count)]


def item_of(m: Machine, value: Value, index: Value, node: ast.AST) -> Value:
    """A thing taken out of something that is not a known container."""
    base = settle(value)
    if isinstance(base, Unknown):
        result = m.unknown(base.reason, node, value)
        return result
    return m.made("item", "", node, [index], receiver=value)


def set_attribute(m: Machine, target: Value, name: str, value: Value, node: ast.AST) -> None:
    """Assign to an attribute."""
    m.store(target, name, value, node)
    for option in options_of(target, limit=3):
        if isinstance(option, (Obj, Unknown, Func)):
            m.write(option.attrs, name, value)
            drawn = m.drawings.get(id(option), (None, None))[1]
            if drawn is not None:
                m.write(drawn.attrs, name, value)
            if isinstance(option, Obj) and option.kind == "call" and option.name == "argparse.Namespace":
                continue
        elif isinstance(option, (Class, Module)):
            m.write(option.namespace, name, value)
        elif isinstance(option, Dict):
            m.write(option.entries, name, value)
        if not isinstance(target, (Choice, Phi)):
            break


_BLANK = frozenset(
    "zeros empty ones full zeros_like empty_like ones_like full_like new_zeros new_empty new_ones new_full".split()
)
"""What makes a tensor that is then filled item by item: ``outputs[t] = x``."""


def set_item(m: Machine, target: Value, key: Value, value: Value, node: ast.AST) -> None:
    """Assign to an item."""
    from preflight.source.evaluate.containers import scatter

    base = settle(target)
    k = settle(key)
    if isinstance(base, Dict):
        if isinstance(k, Known):
            m.write(base.entries, k.value, value)
        else:
            base.open = True
            if base.name == "scope":
                soften(m, base.entries)
            elif read_from_file(value):
                overwrite(m, base.entries, node)
    elif isinstance(base, Seq):
        if isinstance(k, Known) and isinstance(k.value, int) and -len(base.items) <= k.value < len(base.items):
            m.touch(base)
            base.items[k.value] = value
        elif isinstance(k, Obj) and k.name == "slice" and _replace(m, base, k, value, node):
            pass
        else:
            m.touch(base)
            if isinstance(settle(value), Known):
                base.items.append(value)
            scatter(m, base)
    elif isinstance(base, Obj):
        if isinstance(k, Known) and isinstance(k.value, str):
            m.write(base.attrs, k.value, value)
        elif base.name in ("torch.nn.Sequential", "torch.nn.ModuleList"):
            _put_part(m, base, k, value, node)
        elif base.name == "os.environ" and isinstance(k, Known):
            m.write(base.attrs, str(k.value), value)
        elif base.kind == "call" and base.name.rpartition(".")[2] in _BLANK:
            held = base.attrs.get(ITEMS)
            before = held.items if isinstance(held, Seq) else []
            if not any(value is item for item in before) and len(before) < 16:
                m.write(base.attrs, ITEMS, Seq([*before, value]))
    label = f"[{k.value!r}]" if isinstance(k, Known) else "[]"
    m.store(target, label, value, node)


def _put_part(m: Machine, base: Obj, key: Value, value: Value, node: ast.AST) -> None:
    """``model.classifier[6] = layer``: another layer in the place of one."""
    from preflight.source.evaluate.library.torch import module_items

    parts = module_items(m, base, node)
    at = key.value if isinstance(key, Known) else None
    if parts is not None and isinstance(at, int) and -len(parts) <= at < len(parts):
        items = list(parts)
        items[at] = value
        m.write(base.attrs, ITEMS, Seq(items, "list", m.site(node)))


def soften(m: Machine, scope: dict[Any, Value]) -> None:
    """``globals()[key] = value`` with a key from outside: any plain variable of the module may be given anew."""
    for name, held in list(scope.items()):
        if (
            isinstance(held, Known)
            and not held.soft
            and isinstance(held.value, (bool, int, float, str))
            and not name.startswith("_")
        ):
            m.write(scope, name, Known(held.value, held.site, f"variable {name}, which the command line can set", True))


def _replace(m: Machine, base: Seq, key: Obj, value: Value, node: ast.AST) -> bool:
    """``a[i:j] = ...`` where all of it is known."""
    from preflight.source.evaluate.attributes import slice_of
    from preflight.source.evaluate.iteration import iterate

    bounds = slice_of(key)
    items, _ = iterate(m, value, node)
    if bounds is None or items is None or base.open:
        return False
    m.touch(base)
    try:
        base.items[bounds] = items
    except (TypeError, ValueError):
        return False
    return True


def delete(m: Machine, target: ast.expr) -> None:
    """Forget a name; items and attributes only lose what was known of them."""
    from preflight.source.evaluate.containers import forget, scatter

    if isinstance(target, ast.Name):
        event = m.event("builtins.del", target, None, None, [m.lookup(target.id) or Known(None)], {})
        event.result = Known(None)
    elif isinstance(target, ast.Subscript):
        base, key = settle(evaluate(m, target.value)), settle(evaluate(m, target.slice))
        if isinstance(base, Dict) and isinstance(key, Known):
            forget(m, base, key.value)
        elif isinstance(base, Dict):
            base.open = True
        elif isinstance(base, Seq):
            m.touch(base)
            if not _taken_out(m, base, key):
                scatter(m, base)
    elif isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            delete(m, element)
    elif isinstance(target, ast.Attribute):
        _without(m, settle(evaluate(m, target.value)), target)


def _without(m: Machine, network: Value, target: ast.Attribute) -> None:
    """``del model.classifier``: a network without one of its parts."""
    from preflight.source.evaluate.library.methods import is_module

    if not isinstance(network, Obj) or not is_module(network):
        return
    gone = m.unknown(f"{target.attr} was deleted", target)
    drawn = drawing_of(m, network)
    for one in (network, drawn) if drawn is not None else (network,):
        m.write(one.attrs, target.attr, gone)


def _taken_out(m: Machine, base: Seq, key: Value) -> bool:
    """Take ``a[i]`` or ``a[i:j]`` out of a list, where the list and the place are known."""
    from preflight.source.evaluate.attributes import slice_of
    from preflight.source.evaluate.containers import repeats

    if base.open or repeats(m, base):
        return False
    if isinstance(key, Known) and isinstance(key.value, int) and -len(base.items) <= key.value < len(base.items):
        del base.items[key.value]
        return True
    bounds = slice_of(key) if isinstance(key, Obj) and key.name == "slice" else None
    if bounds is None or bounds.step == 0:
        return False
    del base.items[bounds]
    return True
