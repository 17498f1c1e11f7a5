"""Hydra: the configuration that ``@hydra.main`` composes from the files beside the script."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Any

from preflight.source.evaluate.library import Call, Model
from preflight.source.evaluate.library.omegaconf import interpolated, merged, set_dotted
from preflight.source.evaluate.library.yaml import config_value, load_yaml
from preflight.source.values import Class, Dict, Func, Known, Obj, Partial, Value, plain, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()
_DEPTH = 8


@MODEL.call("@hydra.main")
def _main(m: Machine, c: Call) -> Value | None:
    made = c.receiver
    func = settle(c.args[0])
    if not isinstance(made, Obj) or not isinstance(func, Func):
        return None
    folder = plain(made.argument(0, "config_path"))
    name = plain(made.argument(1, "config_name"))
    if not isinstance(name, str):
        return Partial(func, [m.unknown("the configuration is chosen on the command line", c.node)], {}, func.site)
    folder = folder if isinstance(folder, str) else "."
    overrides = [w for w in m.arguments or () if "=" in w]
    config = compose(m, folder, name, overrides, c.node)
    if config is None:
        stored = _structured(m, name)
        config = (
            stored if stored is not None else m.unknown(f"the configuration {folder}/{name}.yaml is not there", c.node)
        )
    return Partial(func, [config], {}, func.site)


def compose(m: Machine, folder: str, name: str, overrides: list[str], node: Any) -> Value | None:
    """Compose a configuration with its defaults list and overrides."""
    groups = {w.partition("=")[0].lstrip("+"): w.partition("=")[2] for w in overrides}
    config = _load(m, folder, name, groups, node, 0)
    if config is None:
        return None
    for word in overrides:
        key = word.partition("=")[0].lstrip("+~")
        if (
            m.project.read_data(posixpath.join(folder, key, word.partition("=")[2] + ".yaml"), m.frame.module.script)
            is None
        ):
            set_dotted(m, config, word, node)
    return interpolated(m, config)


def _load(m: Machine, folder: str, name: str, groups: dict[str, str], node: Any, depth: int) -> Dict | None:
    name = name.removesuffix(".yaml")
    found = m.project.read_data(posixpath.join(folder, name + ".yaml"), m.frame.module.script)
    if found is None or depth > _DEPTH:
        return None
    data = load_yaml(found[0], True)
    if not isinstance(data, dict):
        return Dict({}, m.site(node), name="config")
    defaults = data.pop("defaults", [])
    own = config_value(m, data, node, found[1], "config")
    assert isinstance(own, Dict)
    result, placed = Dict({}, m.site(node), name="config"), False
    for entry in defaults if isinstance(defaults, list) else []:
        if entry == "_self_":
            result, placed = merged(result, own), True
            continue
        part = _part(m, folder, name, entry, groups, node, depth)
        if part is not None:
            result = merged(result, part)
    return result if placed else merged(result, own)


def _part(m: Machine, folder: str, name: str, entry: Any, groups: dict[str, str], node: Any, depth: int) -> Dict | None:
    """What an entry of a defaults list brings, at the place in the configuration where it belongs."""
    chosen: Any
    if isinstance(entry, str):
        path, _, package = entry.partition("@")
        group, chosen = posixpath.split(path)
    elif isinstance(entry, dict) and entry:
        key, chosen = next(iter(entry.items()))
        group, _, package = str(key).removeprefix("optional ").removeprefix("override ").strip().partition("@")
    else:
        return None
    # Groups are named from the root in the command line, and in an entry as seen from the file that it stands in.
    whole = group.lstrip("/") if group.startswith("/") else posixpath.join(posixpath.dirname(name), group)
    if not isinstance(entry, str):
        chosen = groups.get(whole, chosen)
    if not isinstance(chosen, str):
        return None
    file = posixpath.join(whole, chosen)
    inner = _load(m, folder, file, groups, node, depth + 1)
    if inner is None:
        return None
    place = package or _package(m, folder, file) or group.strip("/").replace("/", ".")
    for part in reversed(place.split(".")):
        if part and part != "_global_":
            inner = Dict({part: inner}, m.site(node), name="config")
    return inner


def _package(m: Machine, folder: str, name: str) -> str:
    """Where a file says that it belongs: ``# @package _global_``; empty where it does not."""
    found = m.project.read_data(posixpath.join(folder, name.removesuffix(".yaml") + ".yaml"), m.frame.module.script)
    said = re.match(rb"(?:\s*#[^\n]*\n)*?\s*#\s*@package:?\s+([\w.]+)", found[0]) if found is not None else None
    return said[1].decode().replace("_group_", "") if said is not None else ""


def _structured(m: Machine, name: str) -> Value | None:
    """A configuration that was stored from a dataclass."""
    from preflight.source.evaluate.classes import instantiate

    for event in m.trace.calls(".store"):
        stored = plain(event.kwargs.get("name") or (event.args[0] if event.args else None))
        node = event.kwargs.get("node") or (event.args[1] if len(event.args) > 1 else None)
        cls = settle(node) if node is not None else None
        if stored == name and isinstance(cls, Class):
            return instantiate(m, cls, [], {}, event.node)
    return None


@MODEL.call("hydra.utils.instantiate")
def _instantiate(m: Machine, c: Call) -> Value | None:
    """``instantiate(cfg.model)``: the class that ``_target_`` names, with the other entries as arguments."""
    from preflight.source.canonical import canonical
    from preflight.source.evaluate.calls import call
    from preflight.source.evaluate.classes import is_dataclass
    from preflight.source.values import Ext

    given = c.argument(0, "config")
    config = settle(given) if given is not None else None
    structured = isinstance(config, Obj) and config.cls is not None and is_dataclass(config.cls)
    if not isinstance(config, Dict) and not structured:
        return None
    entries: dict[Any, Value] = config.entries if isinstance(config, Dict) else config.attrs  # type: ignore[union-attr]
    target = settle(entries.get("_target_", Known(None)))
    if not isinstance(target, Known) or not isinstance(target.value, str):
        return None
    kwargs = {k: v for k, v in entries.items() if isinstance(k, str) and not k.startswith("_")}
    kwargs.update({k: v for k, v in c.kwargs.items() if k != "config" and not k.startswith("_")})
    partial = c.kwargs.get("_partial_") or entries.get("_partial_")
    found = _resolve(m, target.value)
    func = found if found is not None else Ext(canonical(target.value), m.site(c.node))
    if plain(partial) is True:
        return Partial(func, c.args[1:], kwargs, m.site(c.node))
    return call(m, func, c.args[1:], kwargs, c.node)


def _resolve(m: Machine, dotted: str) -> Value | None:
    module, _, name = dotted.rpartition(".")
    path = m.project.find(module, m.frame.module.script) if module else None
    script = m.project.load(path) if path is not None else None
    if script is None:
        return None
    return m.import_script(module, script).namespace.get(name)
