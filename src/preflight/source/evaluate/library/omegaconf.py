"""OmegaConf: configurations whose entries are attributes too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.evaluate.iteration import copy_of
from preflight.source.evaluate.library import Call, Model
from preflight.source.evaluate.library.yaml import config_value, load_yaml, text_of
from preflight.source.values import Dict, Known, Obj, Seq, Unknown, Value, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()
_O = "omegaconf.OmegaConf."


@MODEL.call(_O + "load")
def _load(m: Machine, c: Call) -> Value | None:
    found = text_of(m, c.args[0] if c.args else None)
    data = load_yaml(found[0], True) if found is not None else None
    if found is None or not isinstance(data, dict):
        return m.unknown("a configuration file that is not part of the repository", c.node, *c.args)
    return interpolated(m, config_value(m, data, c.node, found[1], "config"))


@MODEL.call(_O + "create", _O + "structured")
def _create(m: Machine, c: Call) -> Value | None:
    base = settle(c.args[0]) if c.args else Dict({}, m.site(c.node))
    return as_config(base)


@MODEL.call(_O + "merge", _O + "unsafe_merge")
def _merge(m: Machine, c: Call) -> Value | None:
    result: Value = Dict({}, m.site(c.node), name="config")
    for base in (as_config(settle(arg)) for arg in c.args):
        if isinstance(result, Obj):
            if isinstance(base, Dict):
                result.attrs.update(base.entries)
        elif isinstance(result, Dict) and isinstance(base, Dict):
            result = merged(result, base)
        elif isinstance(result, Dict) and isinstance(base, Obj) and not result.entries:
            result = copy_of(m, base, c.node)
        elif isinstance(result, Dict):
            result.open = True
    return interpolated(m, result)


@MODEL.call(_O + "from_cli", _O + "from_dotlist")
def _from_cli(m: Machine, c: Call) -> Value | None:
    result = Dict({}, m.site(c.node), False, "config")
    words = list(m.arguments or ())
    given = settle(c.args[0]) if c.args else None
    if isinstance(given, Seq):
        words = [i.value for i in map(settle, given.items) if isinstance(i, Known) and isinstance(i.value, str)]
    for word in words:
        set_dotted(m, result, word, c.node)
    return result


@MODEL.call(_O + "to_container", _O + "to_object", _O + "resolve", _O + "set_struct", _O + "to_yaml")
def _same(m: Machine, c: Call) -> Value | None:
    if c.name.endswith("to_yaml"):
        return m.unknown("text of a configuration", c.node)
    return settle(c.args[0]) if c.args else None


@MODEL.call(_O + "select")
def _select(m: Machine, c: Call) -> Value | None:
    key = settle(c.args[1]) if len(c.args) > 1 else None
    return select(settle(c.args[0]), str(key.value)) if isinstance(key, Known) else None


def as_config(base: Value) -> Value:
    """The same entries, reachable as attributes."""
    if isinstance(base, Dict):
        return Dict({k: as_config(settle(v)) for k, v in base.entries.items()}, base.site, base.open, "config")
    return base


def merged(first: Dict, second: Dict) -> Dict:
    """Entries of the second over those of the first, depth first."""
    entries = dict(first.entries)
    for key, value in second.entries.items():
        before, after = entries.get(key), settle(value)
        inner = settle(before) if before is not None else None
        entries[key] = merged(inner, after) if isinstance(inner, Dict) and isinstance(after, Dict) else value
    return Dict(entries, first.site or second.site, first.open or second.open, "config")


def set_dotted(m: Machine, table: Dict, word: str, node: object) -> None:
    """Apply ``a.b=value`` of a command line."""
    name, equals, text = word.lstrip("+~").partition("=")
    if not equals:
        return
    parts = name.lstrip("-").split(".")
    current = table
    for part in parts[:-1]:
        inner = settle(current.entries.get(part, Known(None)))
        if not isinstance(inner, Dict):
            inner = Dict({}, None, False, "config")
            current.entries[part] = inner
        current = inner
    data = load_yaml(text.encode(), True)
    current.entries[parts[-1]] = as_config(m.lift(data, None, f"command line {name}"))


def select(base: Value, dotted: str) -> Value | None:
    """The entry at ``a.b.c``."""
    current: Value | None = base
    for part in dotted.split("."):
        settled = settle(current) if current is not None else None
        if isinstance(settled, Dict):
            current = settled.entries.get(part)
        elif isinstance(settled, Obj):
            current = settled.attrs.get(part)
        else:
            return None
    return current


def interpolated(m: Machine, root: Value) -> Value:
    """Replace ``${a.b}`` by the entry it names."""

    def visit(value: Value, depth: int) -> Value:
        settled = settle(value)
        if isinstance(settled, Dict) and depth < 20:
            for key, inner in list(settled.entries.items()):
                settled.entries[key] = visit(inner, depth + 1)
            return settled
        if isinstance(settled, Seq) and depth < 20:
            settled.items[:] = [visit(item, depth + 1) for item in settled.items]
            return settled
        if isinstance(settled, Known) and isinstance(settled.value, str) and "${" in settled.value:
            text = settled.value
            if text.startswith("${") and text.endswith("}") and text.count("${") == 1 and ":" not in text:
                found = select(root, text[2:-1])
                named = settle(found) if found is not None else None
                if named is not None and not (
                    isinstance(named, Known) and isinstance(named.value, str) and "${" in named.value
                ):
                    return named
            return Unknown(f"refers to {text}", settled.site)
        return value

    return visit(root, 0)
