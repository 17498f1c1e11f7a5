"""Methods of plain containers and text."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from preflight.source.evaluate.iteration import iterate
from preflight.source.evaluate.members import each_once
from preflight.source.evaluate.operators import is_soft
from preflight.source.evaluate.overwritten import overwrite, read_from_file
from preflight.source.values import Dict, Known, Seq, Value, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

_TEXT = frozenset(
    "lower upper strip lstrip rstrip split rsplit replace startswith endswith format join title capitalize find index count "
    "isdigit isalpha isnumeric partition rpartition splitlines removeprefix removesuffix casefold swapcase encode decode hex "
    "bit_length is_integer isidentifier isspace islower isupper zfill".split()
)
MAX_TEXT = 100_000
MAX_LIST = 20_000


def call_container(
    m: Machine, base: Value, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST, shown: Value
) -> Value | None:
    """The value of a method call on a list, tuple, set, dictionary, number or text; None where it is not modelled."""
    if isinstance(base, Seq):
        return _seq(m, base, name, args, kwargs, node)
    if isinstance(base, Dict):
        return _dict(m, base, name, args, kwargs, node)
    if isinstance(base, Known):
        return _known(m, base, name, args, kwargs, node)
    return None


def _seq(m: Machine, base: Seq, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value | None:
    if name in ("append", "add") and args:
        m.touch(base)
        if len(base.items) < MAX_LIST:
            base.items.append(args[0])
        _settle_members(m, base)
        if repeats(m):
            base.open = True
        return m.known(None)
    if name in ("extend", "update") and args:
        m.touch(base)
        items, element = iterate(m, args[0], node)
        base.items.extend((items or [])[:MAX_LIST] if items is not None else [element] if element is not None else [])
        _settle_members(m, base)
        if items is None or repeats(m):
            base.open = True
        return m.known(None)
    if name == "insert" and len(args) == 2:
        m.touch(base)
        at = settle(args[0])
        position = at.value if isinstance(at, Known) and isinstance(at.value, int) else len(base.items)
        base.items.insert(position, args[1])
        return m.known(None)
    if name == "pop":
        m.touch(base)
        at = settle(args[0]) if args else Known(-1)
        if (
            not base.open
            and isinstance(at, Known)
            and isinstance(at.value, int)
            and -len(base.items) <= at.value < len(base.items)
        ):
            return base.items.pop(at.value)
        base.open = True
        return base.items[-1] if base.items else m.unknown("item of a list that is not fully known", node, base)
    if name == "copy":
        return Seq(list(base.items), base.kind, m.site(node), base.open)
    if name in ("remove", "clear", "reverse", "sort", "discard"):
        m.touch(base)
        if name == "clear":
            base.items.clear()
            base.open = repeats(m)
        elif name == "reverse":
            base.items.reverse()
        elif name == "sort":
            _sort(m, base, kwargs, node)
        else:
            _remove(m, base, settle(args[0]) if args else None)
        return m.known(None)
    if name == "index" and args:
        wanted = settle(args[0])
        for i, item in enumerate(map(settle, base.items)):
            if isinstance(item, Known) and isinstance(wanted, Known) and item.value == wanted.value:
                return m.known(i, node)
        return m.unknown("position in a list", node, base)
    if name == "count" and args:
        worth, wanted = m.plain(base, _MISSING), m.plain(args[0], _MISSING)
        if worth is not _MISSING and wanted is not _MISSING:
            return m.known(worth.count(wanted), node)
        return m.unknown("count in a list", node, base)
    if name in ("union", "difference", "intersection", "symmetric_difference"):
        extra = [i for a in args if isinstance(settle(a), Seq) for i in settle(a).items]  # type: ignore[attr-defined]
        return Seq([*base.items, *(extra if name == "union" else [])], "set", m.site(node), True)
    return None


def _settle_members(m: Machine, base: Seq) -> None:
    """Leave every member of a set in it once."""
    if base.kind == "set":
        m.tick(len(base.items) // 8)
        base.items[:] = each_once(base.items)


def _sort(m: Machine, base: Seq, kwargs: dict[str, Value], node: ast.AST) -> None:
    from preflight.source.evaluate.builtin.collections import in_order

    ordered = in_order(m, base.items, kwargs, node) if not base.open else None
    if ordered is not None:
        base.items[:] = ordered
    else:
        base.open = True


def _remove(m: Machine, base: Seq, wanted: Value | None) -> None:
    """Take the first item that equals ``wanted`` out, where all items before it are known to differ."""
    for index, item in enumerate(map(settle, base.items)):
        if item is wanted and not isinstance(item, Known):
            break
        if not isinstance(item, Known) or not isinstance(wanted, Known):
            break
        if item.value == wanted.value and not base.open and not repeats(m):
            del base.items[index]
            return
    base.open = True


def repeats(m: Machine) -> bool:
    """Whether this place is inside a loop that is followed once and stands for many passes."""
    return any(f.kind == "loop" and not f.unrolled for f in m.context.frames())


def _dict(
    m: Machine, base: Dict, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value | None:
    key = settle(args[0]) if args else None
    if name in ("get", "pop", "setdefault") and args:
        if isinstance(key, Known):
            found = base.entries.get(key.value) if _hashable(key.value) else None
            if found is not None:
                if name == "pop":
                    _forget(m, base, key.value)
                return found
            default = args[1] if len(args) > 1 else m.known(None)
            if base.open:
                return m.unknown(f"entry {key.value!r} of a dictionary that is not fully known", node, base, default)
            if name == "setdefault":
                m.write(base.entries, key.value, default)
            return default
        return m.unknown("entry of a dictionary", node, base, *args)
    if name in ("items", "keys", "values"):
        rows: list[Value] = []
        for k, v in base.entries.items():
            label = m.known(k, node)
            rows.append(Seq([label, v], "tuple") if name == "items" else label if name == "keys" else v)
        return Seq(rows, "list", m.site(node), base.open)
    if name == "update":
        for arg in args:
            table = settle(arg)
            if isinstance(table, Dict):
                for k, v in table.entries.items():
                    m.write(base.entries, k, v)
                base.open = base.open or table.open
            else:
                base.open = True
                if read_from_file(table):
                    overwrite(m, base.entries, node)
        for k, v in kwargs.items():
            m.write(base.entries, k, v)
        return m.known(None)
    if name == "copy":
        return Dict(dict(base.entries), m.site(node), base.open, base.name)
    if name in ("merge_from_file", "merge_from_list", "freeze", "defrost", "clone"):
        return base if name == "clone" else m.known(None)
    if name == "clear":
        for k in list(base.entries):
            _forget(m, base, k)
        return m.known(None)
    return None


def _hashable(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float, bool, bytes, tuple))


def _forget(m: Machine, base: Dict, key: Any) -> None:
    if m.journal is None:
        base.entries.pop(key, None)
    else:
        base.open = True


def _known(
    m: Machine, base: Known, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value | None:
    if name not in _TEXT or not isinstance(base.value, (str, bytes, int, float)):
        return m.unknown("an error: None has no methods", node) if base.value is None else None
    values = [m.plain(a, _MISSING) for a in args]
    named = {k: m.plain(v, _MISSING) for k, v in kwargs.items()}
    if any(v is _MISSING for v in (*values, *named.values())):
        return m.unknown("text with a part that is not known", node, base, *args)
    if isinstance(base.value, (str, bytes)) and len(base.value) > MAX_TEXT:
        return m.unknown("text too long to follow", node)
    if name in ("format", "zfill", "replace", "join", "hex"):
        digits = "".join(c if c.isdigit() else " " for c in str(base.value) + str(values)).split()
        if name != "join" and any(len(d) > 4 for d in digits):
            return m.unknown("text too long to follow", node)
        size = len(str(values)) + len(str(named))
        holes = {"replace": len(str(base.value)) + 1, "format": str(base.value).count("{")}.get(name, 1)
        if name == "join":
            size, holes = (
                len(base.value) if isinstance(base.value, (str, bytes)) else 0,
                len(values[0]) if values and isinstance(values[0], list) else 1,
            )
        if size * holes > 10 * MAX_TEXT:
            return m.unknown("text too long to follow", node)
    try:
        result = getattr(base.value, name)(*values, **named)
    except (AttributeError, TypeError, ValueError, KeyError, IndexError, LookupError, OverflowError, MemoryError):
        return m.unknown("cannot be computed", node, base)
    soft = base.soft or any(map(is_soft, (*args, *kwargs.values())))
    return m.lift(result, node, base.how, soft, (base, *args, *kwargs.values()))


_MISSING: Any = object()
