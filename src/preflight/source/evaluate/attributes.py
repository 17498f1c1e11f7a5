"""Attributes and items of values."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from preflight.source.canonical import canonical
from preflight.source.evaluate.drawings import drawing_of
from preflight.source.evaluate.iteration import items_of_record
from preflight.source.evaluate.library import library_attribute
from preflight.source.values import (
    Bound,
    Choice,
    Class,
    Dict,
    Ext,
    Func,
    Known,
    Method,
    Module,
    Obj,
    Partial,
    Phi,
    Seq,
    Unknown,
    Value,
    join,
    settle,
)

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine


def attribute(m: Machine, base: Value, name: str, node: ast.AST) -> Value:
    """The value of ``base.name``."""
    if isinstance(base, Phi):
        value = attribute(m, base.initial, name, node)
        return Method(base, value.name, value.site) if isinstance(value, Method) else value
    if isinstance(base, Choice):
        return _of_choice(m, base, name, node)
    if isinstance(base, Obj):
        return _of_object(m, base, name, node)
    if isinstance(base, Ext):
        full = canonical(f"{base.name}.{name}")
        return library_attribute(m, base, full, node) or Ext(full, m.site(node))
    if isinstance(base, Module):
        if name == "__dict__":
            return Dict(base.namespace, m.site(node), name="scope")
        found = base.namespace.get(name)
        if found is not None:
            return found
        return _submodule(m, base, name, node)
    if isinstance(base, Class):
        found = base.lookup(name)
        if found is not None:
            if isinstance(found, Func) and _decorated(found, "classmethod"):
                return Bound(found, base, m.site(node))
            return found
        if name == "__name__":
            return m.known(base.node.name, node)
        externals = base.external_bases()
        if externals:
            return Method(base, name, m.site(node))
        return m.unknown(f"{base.qualname} has no attribute {name} that is known", node)
    if isinstance(base, (Seq, Dict, Known)):
        return _of_plain(m, base, name, node)
    if isinstance(base, Unknown):
        found = base.attrs.get(name)
        if found is None:
            found = Method(base, name, m.site(node))
            if not _called(m, node):
                found = Unknown(base.reason, m.site(node), (base,), name=name)
                base.attrs[name] = found
        return found
    if isinstance(base, Func):
        if name == "__name__":
            return m.known(base.qualname.rpartition(".")[2], node)
        return base.attrs.get(name) or Method(base, name, m.site(node))
    if isinstance(base, (Bound, Partial)):
        if name == "func" and isinstance(base, Partial):
            return base.func
        return m.unknown(f"attribute {name} of a function", node)
    if isinstance(base, Method):
        # An attribute of what external code may return or hold: model.module, optimizer.param_groups
        owner = m.made("attr", base.name, node, receiver=base.receiver)
        return attribute(m, owner, name, node)
    return m.unknown(f"attribute {name}", node, base)


def _called(m: Machine, node: ast.AST) -> bool:
    """Whether this attribute is what a call is calling (set by the evaluator of calls)."""
    return getattr(m, "calling", None) is node


def _decorated(func: Func, name: str) -> bool:
    return any(isinstance(d, Ext) and d.name == "builtins." + name for d in func.decorators)


def _of_choice(m: Machine, base: Choice, name: str, node: ast.AST) -> Value:
    result: Value | None = None
    preferred = settle(base)
    called = _called(m, node)
    if called and not isinstance(preferred, Choice):
        found = attribute(m, preferred, name, node)
        if isinstance(found, Method):
            return Method(base, name, m.site(node))
        return found
    wanted = None
    for i, option in enumerate(base.options):
        if isinstance(option, Known) and option.value is None:
            continue
        found = attribute(m, option, name, node)
        if isinstance(found, Method):
            return Method(base, name, m.site(node))
        if i == base.preferred:
            wanted = found
        result = found if result is None else join(result, found)
    if wanted is not None and isinstance(result, Choice):
        index = next((i for i, o in enumerate(result.options) if o is wanted), None)
        return Choice(result.options, index, base.test)
    return result if result is not None else m.unknown(f"attribute {name} of None", node, base)


def _submodule(m: Machine, base: Module, name: str, node: ast.AST) -> Value:
    path = m.project.find(f"{base.name}.{name}", base.script)
    if path is None and base.script.file is not None and base.script.file.name == "__init__.py":
        path = m.project.find(name, base.script, 1)  # a package that was imported by a relative name
    script = m.project.load(path) if path is not None else None
    if script is not None:
        return m.import_script(f"{base.name}.{name}", script)
    return m.unknown(f"{name} is not defined in {base.name}", node)


def _of_object(m: Machine, base: Obj, name: str, node: ast.AST) -> Value:
    found = base.attrs.get(name)
    if found is not None:
        return found
    if name == "__dict__" and base.name == "argparse.Namespace":
        return Dict(base.attrs, m.site(node), name="vars")
    if base.cls is not None:
        member = base.cls.lookup(name)
        if member is not None:
            return _member(m, base, member, name, node)
        if name == "__dict__":
            return Dict(base.attrs, m.site(node), name="vars")
        if name == "__class__":
            return base.cls
    part = _of_drawing(m, base, name, node)
    if part is not None:
        return part
    if base.name in ("torch.nn.ModuleDict", "torch.nn.Sequential") and base.args:
        table = settle(base.args[0])
        if isinstance(table, Dict) and name in table.entries:
            return table.entries[name]
    from_library = library_attribute(m, base, f"{base.name}.{name}" if base.name else name, node)
    if from_library is not None:
        return from_library
    if base.cls is not None and base.cls.lookup("__getattr__") is not None and not _is_module(base):
        from preflight.source.evaluate.calls import call_method

        if m.call_stack.count(base.cls) < 2:
            m.call_stack.append(base.cls)
            try:
                return call_method(m, base, "__getattr__", [m.known(name)], {}, node)
            finally:
                m.call_stack.pop()
    if base.kind == "copy" and isinstance(base.receiver, Obj) and not _called(m, node):
        return _of_object(
            m, base.receiver, name, node
        )  # a method is the copy's own: b.parameters() is not a.parameters()
    if base.name == "builtins.super":
        from preflight.source.evaluate.classes import super_attribute

        return super_attribute(m, base, name, node)
    if _called(m, node):
        return Method(base, name, m.site(node))
    result = m.made("attr", name, node, receiver=base)
    base.attrs[name] = result
    return result


def _of_drawing(m: Machine, base: Obj, name: str, node: ast.AST) -> Value | None:
    """A part of a network that a library made: ``model.fc``."""
    drawn = drawing_of(m, base)
    if drawn is None:
        return None
    found = drawn.attrs.get(name)
    if found is not None:
        base.attrs[name] = found
        return found
    member = drawn.cls.lookup(name) if drawn.cls is not None else None
    return _member(m, drawn, member, name, node) if member is not None and name != "forward" else None


def _is_module(base: Obj) -> bool:
    return base.cls is not None and any(n.startswith("torch.nn.") for n in base.cls.external_bases())


def _member(m: Machine, base: Obj, member: Value, name: str, node: ast.AST) -> Value:
    if not isinstance(member, Func):
        return member
    for decorator in member.decorators:
        if isinstance(decorator, Ext):
            if decorator.name in _PROPERTIES:
                from preflight.source.evaluate.functions import call_function

                return call_function(m, member, [base], {}, node)
            if decorator.name == "builtins.staticmethod":
                return member
            if decorator.name == "builtins.classmethod" and base.cls is not None:
                return Bound(member, base.cls, m.site(node))
    return Bound(member, base, m.site(node))


_PROPERTIES = frozenset({"builtins.property", "functools.cached_property", "abc.abstractproperty"})


def _of_plain(m: Machine, base: Seq | Dict | Known, name: str, node: ast.AST) -> Value:
    if isinstance(base, Dict) and base.name in {"namespace", "config"} and name in base.entries:
        return base.entries[name]  # OmegaConf, EasyDict and the like: items are attributes too
    if isinstance(base, Dict) and base.name == "config" and not _called(m, node):
        return m.unknown(f"{name} is not set in the configuration", node, base)
    if isinstance(base, Seq) and base.kind == "tuple" and name in ("_asdict", "_replace"):
        return Method(base, name, m.site(node))
    if isinstance(base, Known) and name in ("value", "name") and isinstance(base.value, (str, int)):
        return base  # members of an enumeration are kept as their values
    if isinstance(base, Known) and isinstance(base.value, (int, float, complex)) and name in ("real", "imag"):
        return m.known(getattr(base.value, name), node)
    return Method(base, name, m.site(node))


def item(m: Machine, base: Value, key: Value, node: ast.AST) -> Value:
    """The value of ``base[key]``."""
    settled, k = settle(base), settle(key)
    if isinstance(settled, Choice):
        options = [item(m, option, key, node) for option in settled.options if not isinstance(option, Known)]
        result: Value | None = None
        for option in options:
            result = option if result is None else join(result, option)
        return result if result is not None else m.unknown("item", node, base)
    record = items_of_record(settled)
    if record is not None:
        settled = Seq(record, "tuple")
    if isinstance(settled, Seq):
        return _item_of_seq(m, settled, base, k, node)
    if isinstance(settled, Dict):
        return _item_of_dict(m, settled, base, k, node)
    if isinstance(settled, Known) and isinstance(settled.value, (str, bytes)):
        found = _of_text(m, settled, k, node)
        if found is not None:
            return found
    if isinstance(settled, Unknown):
        label = f"[{k.value!r}]" if isinstance(k, Known) else None
        if label is not None and label in settled.attrs:
            return settled.attrs[label]
        unknown = Unknown(settled.reason, m.site(node), (base, key))
        if label is not None:
            settled.attrs[label] = unknown
        return unknown
    if isinstance(settled, Obj):
        return _item_of_object(m, settled, base, key, k, node)
    if isinstance(settled, Ext) and settled.name == "os.environ":
        from preflight.source.evaluate.library.os import environ_item

        return environ_item(m, key, node) or m.unknown("a variable of the environment", node, key)
    if isinstance(settled, Ext) and settled.name == "sys.argv":
        return m.unknown("a word of the command line", node, base)
    if isinstance(settled, Ext) and settled.name.endswith(".__dict__") and isinstance(k, Known):
        return Ext(canonical(f"{settled.name[:-9]}.{k.value}"), m.site(node))
    if isinstance(settled, (Ext, Class)):
        return settled  # a generic type: list[int]
    return m.unknown("item", node, base)


def _item_of_seq(m: Machine, seq: Seq, base: Value, key: Value, node: ast.AST) -> Value:
    if isinstance(key, Known) and isinstance(key.value, int) and (not seq.open or 0 <= key.value < len(seq.items)):
        if -len(seq.items) <= key.value < len(seq.items):
            return seq.items[key.value]
        return m.unknown("index out of range", node, base)
    bounds = slice_of(key)
    if bounds is not None and not seq.open:
        try:
            return Seq(seq.items[bounds], seq.kind, m.site(node))
        except (TypeError, ValueError):
            return m.unknown("slice", node, base)
    if isinstance(key, Obj) and key.name == "slice":
        return Seq(list(seq.items), seq.kind, m.site(node), True)
    if seq.items and not isinstance(key, Known):
        result = seq.items[0]
        for more in seq.items[1:6]:
            result = join(result, more)
        return result
    return m.unknown("item of a list that is not fully known", node, base)


def slice_of(key: Value) -> slice | None:
    """The bounds of a slice whose ends are known, or None."""
    if isinstance(key, Obj) and key.name == "slice":
        parts: list[Any] = []
        for arg in key.args:
            arg = settle(arg)
            if not isinstance(arg, Known) or not (arg.value is None or isinstance(arg.value, int)):
                return None
            parts.append(arg.value)
        return slice(*parts)
    return None


def _item_of_dict(m: Machine, table: Dict, base: Value, key: Value, node: ast.AST) -> Value:
    if isinstance(key, Known):
        try:
            found = table.entries.get(key.value)
        except TypeError:
            found = None
        if found is not None:
            return found
        return m.unknown(f"no entry {key.value!r}" + (" that is known" if table.open else ""), node, base)
    result: Value | None = None
    for value in list(table.entries.values())[:6]:
        result = value if result is None else join(result, value)
    return result if result is not None else m.unknown("entry of a dictionary that is not known", node, base, key)


def _of_text(m: Machine, text: Known, key: Value, node: ast.AST) -> Value | None:
    bounds = slice_of(key)
    try:
        if bounds is not None:
            return m.known(text.value[bounds], node, text.how, text.soft)
        if isinstance(key, Known) and isinstance(key.value, int):
            return m.known(text.value[key.value], node, text.how, text.soft)
    except (IndexError, ValueError, TypeError):
        return m.unknown("index out of range", node)
    return None


def _item_of_object(m: Machine, base: Obj, shown: Value, key: Value, k: Value, node: ast.AST) -> Value:
    if base.cls is not None and base.cls.lookup("__getitem__") is not None:
        from preflight.source.evaluate.calls import call_method

        return call_method(m, base, "__getitem__", [key], {}, node)
    if isinstance(k, Known) and isinstance(k.value, str) and k.value in base.attrs:
        return base.attrs[k.value]
    from_library = library_attribute(m, base, base.name + ".__getitem__", node, key)
    if from_library is not None:
        return from_library
    if isinstance(k, Known) and isinstance(k.value, (str, int)):
        label = f"[{k.value!r}]"
        found = base.attrs.get(label)
        if found is None or base.name == "argparse.Namespace":
            found = m.made("item", base.name if base.kind == "item" else "", node, [key], receiver=shown)
            base.attrs[label] = found
        return found
    return m.made("item", "", node, [key], receiver=shown)
