"""Imports: the project's own modules are followed; everything else is known by its full name only."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from preflight.source.canonical import canonical
from preflight.source.values import Ext, Known, Module, Seq, Value

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine


def run_import(m: Machine, node: ast.Import) -> None:
    """``import a.b as c``."""
    for alias in node.names:
        value = _module(m, alias.name)
        if alias.asname:
            m.bind(alias.asname, value)
            continue
        top, _, rest = alias.name.partition(".")
        first = _module(m, top) if rest else value
        if rest and isinstance(first, Module) and isinstance(value, Module):
            _attach(m, first, alias.name, value)
        elif rest and isinstance(first, Ext) and isinstance(value, Module):
            first = _namespace(m, top, alias.name, value)
        m.bind(top, first)


def _attach(m: Machine, first: Module, name: str, value: Module) -> None:
    parts = name.split(".")
    current = first
    for i, part in enumerate(parts[1:], start=2):
        target = value if i == len(parts) else _module(m, ".".join(parts[:i]))
        if isinstance(target, Module):
            current.namespace.setdefault(part, target)
            current = target


def _namespace(m: Machine, top: str, name: str, value: Module) -> Value:
    """A package without ``__init__``: a module of its own that holds what was imported from it."""
    key = "namespace:" + top
    package = m.modules.get(key)
    if package is None:
        package = m.modules[key] = Module(top, value.script)
        package.done = True
    parts = name.split(".")
    current = package
    for i, part in enumerate(parts[1:-1], start=2):
        inner = current.namespace.get(part)
        if not isinstance(inner, Module):
            inner = Module(".".join(parts[:i]), value.script)
            inner.done = True
            current.namespace[part] = inner
        current = inner
    current.namespace[parts[-1]] = value
    return package


def run_import_from(m: Machine, node: ast.ImportFrom) -> None:
    """``from a.b import c as d``."""
    name = node.module or ""
    base = _module(m, name, node.level)
    for alias in node.names:
        if alias.name == "*":
            _star(m, base)
            continue
        value: Value | None = None
        if isinstance(base, Module):
            value = base.namespace.get(alias.name)
            if value is None:
                sub = _submodule(m, name, alias.name, node.level)
                value = sub if sub is not None else m.unknown(f"{alias.name} is not defined in {base.name}", node)
                if not base.done and sub is None:
                    value = m.unknown(f"{alias.name} is imported in a circle", node)
        elif isinstance(base, Ext):
            sub = _submodule(m, name, alias.name, node.level)
            value = sub if sub is not None else Ext(canonical(f"{base.name}.{alias.name}"), m.site(node))
        m.bind(alias.asname or alias.name, value if value is not None else m.unknown("not found", node))


def _module(m: Machine, name: str, level: int = 0) -> Value:
    importer = m.frame.module.script
    path = m.project.find(name, importer, level)
    if path is not None:
        script = m.project.load(path)
        if script is not None:
            return m.import_script(name or script.path, script)
    return Ext(canonical("." * level + name))


def _submodule(m: Machine, package: str, name: str, level: int) -> Module | None:
    full = f"{package}.{name}" if package else name
    path = m.project.find(full, m.frame.module.script, level)
    script = m.project.load(path) if path is not None else None
    return m.import_script(full, script) if script is not None else None


def _star(m: Machine, base: Value) -> None:
    if isinstance(base, Module):
        exported = base.namespace.get("__all__")
        names = {i.value for i in exported.items if isinstance(i, Known)} if isinstance(exported, Seq) else None
        for key, value in list(base.namespace.items()):
            if (
                (key in names)
                if names is not None and not (isinstance(exported, Seq) and exported.open)
                else not key.startswith("_")
            ):
                m.bind(key, value)
    if isinstance(base, Ext) or (isinstance(base, Module) and "*" in base.namespace):
        found = m.frame.module.namespace.get("*")
        stars = found if isinstance(found, Seq) else Seq([])
        inherited = base.namespace["*"] if isinstance(base, Module) else Seq([base])
        stars = Seq([*stars.items, *(inherited.items if isinstance(inherited, Seq) else [])])
        m.frame.module.namespace["*"] = stars
