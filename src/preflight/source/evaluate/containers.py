"""Methods of plain containers and text."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from preflight.source.evaluate.iteration import iterate
from preflight.source.evaluate.members import ALGEBRA, combined, each_once
from preflight.source.evaluate.operators import is_soft
from preflight.source.evaluate.overwritten import overwrite, read_from_file
from preflight.source.values import Dict, Known, Seq, Value, join, settle

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
    if name in _GROWS and args:
        return _grown(m, base, name, args, node)
    if name == "pop":
        return _popped(m, base, settle(args[0]) if args else Known(-1), node)
    if name in ("remove", "clear", "reverse", "sort", "discard"):
        return _rearranged(m, base, name, args, kwargs, node)
    if name in ("index", "count") and args:
        return _asked(m, base, name, args[0], node)
    if name == "copy":
        return Seq(list(base.items), base.kind, m.site(node), base.open)
    if name in ALGEBRA:
        return combined(m, name, base, args, node)
    return None


_GROWS = frozenset("append add extend update insert".split())


def _grown(m: Machine, base: Seq, name: str, args: list[Value], node: ast.AST) -> Value:
    m.touch(base)
    if name == "insert":
        at = settle(args[0])
        if isinstance(at, Known) and isinstance(at.value, int) and len(base.items) < MAX_LIST:
            base.items.insert(at.value, args[-1])
        else:
            base.items.append(args[-1])
            scatter(m, base)
        if repeats(m, base):
            scatter(m, base)
        return m.known(None)
    if name in ("extend", "update"):
        items, element = iterate(m, args[0], node)
        base.items.extend((items or [])[:MAX_LIST] if items is not None else [element] if element is not None else [])
        base.open = base.open or items is None
    elif len(base.items) < MAX_LIST:
        base.items.append(args[0])
    _settle_members(m, base)
    base.open = base.open or repeats(m, base)
    return m.known(None)


def _popped(m: Machine, base: Seq, at: Value, node: ast.AST) -> Value:
    m.touch(base)
    known = isinstance(at, Known) and isinstance(at.value, int)
    if known and not base.open and not repeats(m, base):
        assert isinstance(at, Known)
        if -len(base.items) <= at.value < len(base.items):
            return base.items.pop(at.value)
    last = base.items[-1] if base.items else m.unknown("item of a list that is not fully known", node, base)
    scatter(m, base)
    return last


def scatter(m: Machine, base: Seq) -> None:
    """Take note that items came or went where it is not known: each place may hold any of the plain ones.

    Things keep their places: that they are in the list matters more than where.
    """
    either = [item for item in base.items if isinstance(settle(item), Known)]
    if either:
        m.tick(len(base.items) // 8)
        worth: Value = m.unknown("an item that may have moved")
        for item in either[:6]:
            worth = join(worth, item)
        base.items[:] = [worth if isinstance(settle(item), Known) else item for item in base.items]
    base.open = True


def _rearranged(
    m: Machine, base: Seq, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value | None:
    m.touch(base)
    if name == "clear":
        base.items.clear()
        base.open = repeats(m, base)
    elif name == "reverse":
        if base.open or repeats(m, base):
            scatter(m, base)
        base.items.reverse()
    elif name == "sort":
        _sort(m, base, kwargs, node)
    else:
        _remove(m, base, settle(args[0]) if args else None)
    return m.known(None)


def _asked(m: Machine, base: Seq, name: str, wanted: Value, node: ast.AST) -> Value:
    worth, what = m.plain(base, _MISSING), m.plain(wanted, _MISSING)
    if worth is not _MISSING and what is not _MISSING:
        if name == "count":
            return m.known(worth.count(what), node)
        if what in worth:
            return m.known(worth.index(what), node)
    return m.unknown("position in a list" if name == "index" else "count in a list", node, base)


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
        scatter(m, base)


def _remove(m: Machine, base: Seq, wanted: Value | None) -> None:
    """Take the first item that equals ``wanted`` out, where all items before it are known to differ."""
    for index, item in enumerate(map(settle, base.items)):
        if item is wanted and not isinstance(item, Known):
            break
        if not isinstance(item, Known) or not isinstance(wanted, Known):
            break
        if item.value == wanted.value and not base.open and not repeats(m, base):
            del base.items[index]
            return
    scatter(m, base)


def repeats(m: Machine, base: Seq) -> bool:
    """Whether a list meets this place more often than once: in a loop that is followed once, and is younger than the list."""
    for frame in m.context.frames():
        if frame is base.born:
            return False
        if frame.kind == "loop" and not frame.unrolled:
            return True
    return False


def _dict(
    m: Machine, base: Dict, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value | None:
    key = settle(args[0]) if args else None
    if name in ("get", "pop", "setdefault") and args:
        if isinstance(key, Known):
            found = base.entries.get(key.value) if _hashable(key.value) else None
            if found is not None:
                if name == "pop":
                    forget(m, base, key.value)
                return found
            default = args[1] if len(args) > 1 else m.known(None)
            if base.open:
                return m.unknown(f"entry {key.value!r} of a dictionary that is not fully known", node, base, default)
            if name == "setdefault":
                m.write(base.entries, key.value, default)
            return default
        base.open = base.open or name != "get"
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
            forget(m, base, k)
        return m.known(None)
    return None


def _hashable(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float, bool, bytes, tuple))


def forget(m: Machine, base: Dict, key: Any) -> None:
    """Take an entry out; on a side of a branch it is one that may be gone."""
    if key not in base.entries:
        return
    if m.journal is None:
        del base.entries[key]
    else:
        m.write(base.entries, key, join(m.unknown("an entry that may be gone"), base.entries[key]))
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
