"""The built-in functions."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from preflight.source.evaluate.iteration import items_of_record, iterate
from preflight.source.evaluate.library import Call, Model
from preflight.source.evaluate.operators import is_soft
from preflight.source.values import (
    Bound,
    Class,
    Dict,
    Ext,
    Func,
    Known,
    Module,
    Obj,
    Seq,
    Unknown,
    Value,
    plain,
    settle,
)

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()
_MISSING: Any = object()
_NAMED = {"max": {"default"}, "min": {"default"}, "sum": {"start"}, "int": {"base"}, "round": {"ndigits"}}
_PURE: dict[str, Any] = {
    name: getattr(__import__("builtins"), name)
    for name in "int float str bool complex abs round min max sum len divmod ord chr hex bin oct pow any all repr bytes".split()
}


@MODEL.call(*("builtins." + name for name in _PURE))
def _pure(m: Machine, c: Call) -> Value | None:
    name = c.name.rpartition(".")[2]
    if name == "len" and c.args:
        return _len(m, c)
    values = [m.plain(a, _MISSING) for a in c.args]
    named = {k: m.plain(v, _MISSING) for k, v in c.kwargs.items()}
    if any(v is _MISSING for v in (*values, *named.values())) or c.open or not set(named) <= _NAMED.get(name, set()):
        path = settle(c.args[0]) if name == "str" and len(c.args) == 1 else None
        if isinstance(path, Obj) and path.name == "pathlib.Path" and isinstance(path.data, str):
            return m.known(path.data, c.node)
        return _unknown_number(m, c, name) if name not in ("any", "all") else None
    if name == "pow" and (len(values) != 2 or abs(_bits(values[0]) * _bits(values[1], True)) > 4096):
        return m.unknown("too large to compute here", c.node)
    try:
        result = _PURE[name](*values, **named)
    except Exception as error:
        return m.unknown(f"cannot be computed: {error}", c.node, *c.args)
    if name == "bytes" and len(result) > 10_000:
        return m.unknown("too large to compute here", c.node)
    first = settle(c.args[0]) if c.args else None
    how = first.how if isinstance(first, Known) else "computed"
    soft = any(is_soft(a) for a in c.args)
    return m.lift(result, c.node, how, soft, tuple(c.args))


def is_soft_range(value: Obj) -> bool:
    """Whether an option decides how far a range goes."""
    return any(map(is_soft, value.args))


def _bits(value: Any, exponent: bool = False) -> int:
    if isinstance(value, int):
        return abs(value) if exponent else value.bit_length()
    return 1


def _unknown_number(m: Machine, c: Call, name: str) -> Value | None:
    """A conversion of something that is not known: a number that is not known, unless it reads a tensor."""
    settled = [settle(a) for a in c.args]
    if any(isinstance(a, Obj) for a in settled):
        return None
    unknown = next((a for a in settled if isinstance(a, Unknown)), None)
    if unknown is not None:
        return Unknown(unknown.reason, m.site(c.node), tuple(c.args), name=unknown.name)
    return None


def _len(m: Machine, c: Call) -> Value | None:
    value = settle(c.args[0])
    if isinstance(value, Seq) and not value.open:
        # The words of a command line that was not given may be more when the script runs.
        return m.known(len(value.items), c.node, "computed", value.kind == "argv")
    if isinstance(value, Dict) and not value.open:
        return m.known(len(value.entries), c.node, "computed")
    if isinstance(value, Known) and isinstance(value.value, (str, bytes)):
        return m.known(len(value.value), c.node, "computed")
    if isinstance(value, Obj) and isinstance(value.data, range):
        span = value.data  # len() of a range fails beyond a machine word
        count = (span.stop - span.start + span.step - (1 if span.step > 0 else -1)) // span.step
        return m.known(max(0, count), c.node, "computed", is_soft_range(value))
    record = items_of_record(value)
    if record is not None:
        return m.known(len(record), c.node, "computed")
    if isinstance(value, Obj) and value.cls is not None and isinstance(value.cls.lookup("__len__"), Func):
        from preflight.source.evaluate.calls import call_method

        return call_method(m, value, "__len__", [], {}, c.node)
    return Unknown("the length is not known before the data is read", m.site(c.node), tuple(c.args), name="len")


@MODEL.call("builtins.range")
def _range(m: Machine, c: Call) -> Value | None:
    made = m.made("call", "builtins.range", c.node, c.args, c.kwargs)
    values = [plain(a) for a in c.args]
    if values and all(isinstance(v, int) for v in values) and len(values) <= 3 and (len(values) < 3 or values[2]):
        made.data = range(*values)
    return made


@MODEL.call(
    "builtins.list", "builtins.tuple", "builtins.set", "builtins.sorted", "builtins.reversed", "builtins.frozenset"
)
def _sequence(m: Machine, c: Call) -> Value | None:
    name = c.name.rpartition(".")[2]
    kind = {"tuple": "tuple", "set": "set", "frozenset": "set"}.get(name, "list")
    if not c.args:
        return Seq([], kind, m.site(c.node))
    items, element = iterate(m, c.args[0], c.node)
    m.tick(len(items or ()) // 8)
    if items is None:
        base = settle(c.args[0])
        if isinstance(base, Obj) or element is None:
            return None
        return Seq([element], kind, m.site(c.node), True)
    if name == "sorted":
        ordered = in_order(m, items, c.kwargs, c.node)
        return Seq(
            list(items) if ordered is None else ordered, kind, m.site(c.node), ordered is None and len(items) > 1
        )
    if kind == "set":
        items = _each_once(items)
    return Seq(list(reversed(items)) if name == "reversed" else list(items), kind, m.site(c.node))


def in_order(m: Machine, items: list[Value], kwargs: dict[str, Value], node: ast.AST) -> list[Value] | None:
    """The items as ``sorted`` gives them, or None where the order is not known."""
    from preflight.source.evaluate.calls import call

    backwards = plain(kwargs["reverse"], _MISSING) if "reverse" in kwargs else False
    key = kwargs.get("key")
    if backwards is _MISSING or len(items) > 1024:
        return None
    bare = key is None or isinstance(settle(key), Known)
    marks = [m.plain(item if bare or key is None else call(m, key, [item], {}, node), _MISSING) for item in items]
    if any(mark is _MISSING for mark in marks):
        return None
    try:
        order = sorted(range(len(items)), key=marks.__getitem__, reverse=bool(backwards))
    except TypeError:
        return None
    return [items[i] for i in order]


def _each_once(items: list[Value]) -> list[Value]:
    """The members of a set: plain values that are equal count once."""
    seen: set[Any] = set()
    members = []
    for item in items:
        settled = settle(item)
        if isinstance(settled, Known):
            if settled.value in seen:
                continue
            seen.add(settled.value)
        members.append(item)
    return members


@MODEL.call("builtins.dict")
def _dict(m: Machine, c: Call) -> Value | None:
    result = Dict({}, m.site(c.node), c.open)
    if c.args:
        base = settle(c.args[0])
        if isinstance(base, Dict):
            result.entries.update(base.entries)
            result.open = result.open or base.open
        else:
            items, _ = iterate(m, base, c.node)
            for row in items or []:
                pair = settle(row)
                key = settle(pair.items[0]) if isinstance(pair, Seq) and len(pair.items) == 2 else None
                if isinstance(key, Known) and isinstance(pair, Seq):
                    result.entries[key.value] = pair.items[1]
                else:
                    result.open = True
            result.open = result.open or items is None
    result.entries.update(c.kwargs)
    return result


@MODEL.call("builtins.vars")
def _vars(m: Machine, c: Call) -> Value | None:
    base = settle(c.args[0]) if c.args else None
    if isinstance(base, Obj):
        return Dict(base.attrs, m.site(c.node), name="vars")
    return None


@MODEL.call("builtins.globals", "builtins.locals")
def _scope(m: Machine, c: Call) -> Value | None:
    inner = c.name.endswith("locals")
    return Dict(m.frame.locals if inner else m.frame.module.namespace, m.site(c.node), name="scope")


@MODEL.call("builtins.getattr", "builtins.hasattr")
def _getattr(m: Machine, c: Call) -> Value | None:
    from preflight.source.evaluate.attributes import attribute

    name = settle(c.args[1]) if len(c.args) > 1 else None
    if not isinstance(name, Known) or not isinstance(name.value, str):
        return m.unknown("an attribute whose name is not known", c.node, *c.args)
    base = settle(c.args[0])
    found = _has(base, name.value)
    if c.name.endswith("hasattr"):
        return m.known(found, c.node) if found is not None else None
    if found is False and len(c.args) > 2:
        return c.args[2]
    if found is None and len(c.args) > 2 and isinstance(base, Unknown):
        return m.unknown(base.reason, c.node, *c.args)
    return attribute(m, c.args[0], name.value, c.node)


def _has(base: Value, name: str) -> bool | None:
    if isinstance(base, Obj):
        if name in base.attrs or (base.cls is not None and base.cls.lookup(name) is not None):
            return True
        if base.name == "argparse.Namespace" and not base.open_args:
            return False
        plain_class = base.cls is not None and not base.cls.external_bases() and base.cls.lookup("__getattr__") is None
        return False if plain_class and not base.open_args else None
    if isinstance(base, Class):
        return True if base.lookup(name) is not None else None
    if isinstance(base, Dict) and base.name in {"namespace", "config"}:
        return name in base.entries if not base.open else (True if name in base.entries else None)
    if isinstance(base, Module):
        return name in base.namespace
    if isinstance(base, Known):
        return hasattr(base.value, name)
    return None


@MODEL.call("builtins.setattr")
def _setattr(m: Machine, c: Call) -> Value | None:
    from preflight.source.evaluate.assign import set_attribute

    name = settle(c.args[1]) if len(c.args) > 2 else None
    if isinstance(name, Known) and isinstance(name.value, str):
        set_attribute(m, c.args[0], name.value, c.args[2], c.node)
    elif name is not None and not isinstance(settle(c.args[2]), Known):
        _any_may_change(m, c.args[0])
    return m.known(None)


def _any_may_change(m: Machine, target: Value) -> None:
    """A name from outside is set (``for k, v in kwargs.items(): setattr(config, k, v)``): what is there are defaults."""
    base = settle(target)
    if isinstance(base, Obj) and base.kind == "instance":
        for name, value in list(base.attrs.items()):
            if isinstance(value, Known) and not value.soft:
                m.write(base.attrs, name, Known(value.value, value.site, value.how, True))


@MODEL.call("builtins.isinstance", "builtins.issubclass")
def _isinstance(m: Machine, c: Call) -> Value | None:
    if len(c.args) != 2:
        return None
    if c.name.endswith("issubclass"):
        child, parent = settle(c.args[0]), settle(c.args[1])
        return (
            m.known(parent in child.lineage, c.node) if isinstance(child, Class) and isinstance(parent, Class) else None
        )
    base, kinds = settle(c.args[0]), settle(c.args[1])
    wanted = kinds.items if isinstance(kinds, Seq) else [kinds]
    verdicts = [_is(base, settle(kind)) for kind in wanted]
    if any(v is True for v in verdicts):
        return Known(True, m.site(c.node), "computed", bool(getattr(base, "soft", False)))
    if all(v is False for v in verdicts):
        return Known(False, m.site(c.node), "computed", bool(getattr(base, "soft", False)))
    return None


def _is(base: Value, kind: Value) -> bool | None:
    if isinstance(kind, Ext) and kind.name.startswith("builtins."):
        name = kind.name.partition(".")[2]
        if isinstance(base, Known):
            builtin = getattr(__import__("builtins"), name, None)
            return isinstance(base.value, builtin) if isinstance(builtin, type) else None
        if isinstance(base, Seq):
            return base.kind == name
        if isinstance(base, Dict):
            return name == "dict"
        return False if isinstance(base, Obj) and base.kind == "instance" else None
    if isinstance(base, (Known, Seq, Dict)):
        return False if isinstance(kind, (Ext, Class)) else None
    if isinstance(base, Obj) and base.cls is not None:
        if isinstance(kind, Class):
            return kind in base.cls.lineage
        if isinstance(kind, Ext):
            return (
                True if kind.name in base.cls.external_bases() else (False if not base.cls.external_bases() else None)
            )
    if isinstance(base, Obj) and isinstance(kind, Ext) and base.kind == "call" and base.name == kind.name:
        return True
    return None


@MODEL.call("builtins.type")
def _type(m: Machine, c: Call) -> Value | None:
    base = settle(c.args[0]) if len(c.args) == 1 else None
    if isinstance(base, Obj) and base.cls is not None:
        return base.cls
    if isinstance(base, Known):
        return Ext("builtins." + type(base.value).__name__)
    return None


@MODEL.call("builtins.iter")
def _iter(m: Machine, c: Call) -> Value | None:
    """An iterator over known items, which ``next`` uses up; over anything else, the call itself."""
    base = settle(c.args[0]) if len(c.args) == 1 else None
    repeats = any(f.kind == "loop" and not f.unrolled for f in m.context.frames())
    if isinstance(base, Seq) and not base.open and base.kind != "generator" and not repeats:
        m.tick(len(base.items) // 8)
        return Seq(list(base.items), "generator", m.site(c.node))
    return None


@MODEL.call("builtins.next")
def _next(m: Machine, c: Call) -> Value | None:
    if not c.args:
        return None
    items, element = iterate(m, c.args[0], c.node)
    source = settle(c.args[0])
    if items and isinstance(source, Seq) and source.kind == "generator":
        m.touch(source)
        return source.items.pop(0)
    if items:
        return items[0]
    made = m.made("item", "next", c.node, receiver=c.args[0])
    if element is not None and not (isinstance(element, Obj) and element.kind == "item"):
        return element
    return made


@MODEL.call("builtins.map")
def _map(m: Machine, c: Call) -> Value | None:
    from preflight.source.evaluate.calls import call

    if len(c.args) != 2:
        return None
    items, element = iterate(m, c.args[1], c.node)
    if items is not None and len(items) <= 256:
        return Seq([call(m, c.args[0], [i], {}, c.node) for i in items], "list", m.site(c.node))
    return Seq([call(m, c.args[0], [element or m.unknown("item", c.node)], {}, c.node)], "list", m.site(c.node), True)


@MODEL.call("builtins.filter")
def _filter(m: Machine, c: Call) -> Value | None:
    from preflight.source.evaluate.calls import call

    if len(c.args) == 2:
        items, element = iterate(m, c.args[1], c.node)
        sample = items[0] if items else element
        if sample is not None and isinstance(settle(c.args[0]), (Func, Bound)):
            call(m, c.args[0], [sample], {}, c.node)
    return None


@MODEL.call("builtins.exec")
def _exec(m: Machine, c: Call) -> Value | None:
    """``exec(open(path).read())``: a configurator of the project is followed in the scope that calls it."""
    text = settle(c.args[0]) if c.args else None
    if not isinstance(text, Known) or not isinstance(text.value, str) or len(text.value) > 200_000:
        m.trace.notes.append("exec of text that is not known: what it sets is not known")
        return m.known(None)
    from preflight.source.evaluate.statements import run_block
    from preflight.source.script import Script

    try:
        tree = ast.parse(text.value)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return m.known(None)
    module = m.frame.module
    before, limit = module.script, m.call_stack.count("exec")
    if limit >= 3:
        return m.known(None)
    shown = text.how if text.how and text.how.startswith("file ") else "text that is executed"
    module.script = Script(shown.removeprefix("file "), text.value, tree, before.file)
    m.call_stack.append("exec")
    try:
        run_block(m, tree.body)
    finally:
        m.call_stack.pop()
        module.script = before
    if any(isinstance(n, ast.Assign) and any(_is_global(t) for t in n.targets) for n in ast.walk(tree)):
        from preflight.source.evaluate.assign import soften

        soften(m, module.namespace)
    return m.known(None)


def _is_global(target: ast.expr) -> bool:
    """Whether an assignment goes to ``globals()[key]``."""
    base = target.value if isinstance(target, ast.Subscript) else None
    return isinstance(base, ast.Call) and isinstance(base.func, ast.Name) and base.func.id == "globals"


@MODEL.call("builtins.eval")
def _eval(m: Machine, c: Call) -> Value | None:
    """``eval(text)`` of known text is followed like any expression; it is not run."""
    text = settle(c.args[0]) if c.args else None
    if isinstance(text, Known) and isinstance(text.value, str) and len(text.value) < 2000:
        from preflight.source.evaluate.expressions import evaluate

        try:
            return evaluate(m, ast.parse(text.value, mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return m.unknown("eval of text that is not an expression", c.node)
    return m.unknown("eval of text that is not known", c.node, *c.args)


@MODEL.call("builtins.open")
def _open(m: Machine, c: Call) -> Value | None:
    made = m.made("call", "builtins.open", c.node, c.args, c.kwargs)
    path = plain(c.argument(0, "file"))
    target = settle(c.args[0]) if c.args else None
    if path is None and isinstance(target, Obj) and isinstance(target.data, str):
        path = target.data
    mode = plain(c.argument(1, "mode"), "r")
    if isinstance(path, str) and isinstance(mode, str) and not set(mode) & set("wax+"):
        made.data = path
    return made


@MODEL.call("builtins.open.read")
def _read(m: Machine, c: Call) -> Value | None:
    base = settle(c.receiver) if c.receiver is not None else None
    if isinstance(base, Obj) and isinstance(base.data, str):
        found = m.project.read_data(base.data, m.frame.module.script)
        if found is not None:
            data, shown = found
            try:
                return m.known(data.decode("utf-8"), c.node, f"file {shown}")
            except UnicodeDecodeError:
                return None
    return m.unknown("a file that is not part of the repository", c.node, *([c.receiver] if c.receiver else []))


@MODEL.attribute("builtins.super.__init__")
def _nothing(m: Machine, base: Value, name: str, node: ast.AST, key: Value | None) -> Value | None:
    return None


@MODEL.call("builtins.print")
def _print(m: Machine, c: Call) -> Value | None:
    return m.known(None)


@MODEL.call("builtins.slice")
def _slice(m: Machine, c: Call) -> Value | None:
    args = list(c.args)
    if len(args) == 1:
        args = [m.known(None), args[0]]
    while len(args) < 3:
        args.append(m.known(None))
    return m.made("op", "slice", c.node, args)
