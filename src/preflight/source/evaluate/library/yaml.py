"""YAML files that lie beside the script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from preflight.source.evaluate.library import Call, Model
from preflight.source.values import Dict, Known, Obj, Seq, Value, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()


def text_of(m: Machine, value: Value | None) -> tuple[bytes, str] | None:
    """The content of an opened file, a path or known text, with the name it is shown by."""
    base = settle(value) if value is not None else None
    if isinstance(base, Obj) and isinstance(base.data, str):
        return m.project.read_data(base.data, m.frame.module.script)
    if isinstance(base, Known) and isinstance(base.value, str):
        if (
            "\n" not in base.value
            and len(base.value) < 300
            and base.value.endswith((".yaml", ".yml", ".json", ".toml"))
        ):
            return m.project.read_data(base.value, m.frame.module.script)
        shown = base.how.removeprefix("file ") if base.how else "text"
        return base.value.encode(errors="surrogatepass"), shown
    return None


def config_value(m: Machine, data: Any, node: Any, shown: str, name: str | None = None) -> Value:
    """Lift parsed configuration: its values are soft, for a person edits them without editing the code."""
    if isinstance(data, dict):
        entries = {
            k: config_value(m, v, node, shown, name) for k, v in data.items() if isinstance(k, (str, int, float, bool))
        }
        return Dict(entries, m.site(node), name=name)
    if isinstance(data, list):
        return Seq([config_value(m, v, node, shown, name) for v in data], "list", m.site(node))
    if data is None or isinstance(data, (str, int, float, bool)):
        return Known(data, m.site(node), shown, True)
    return Known(str(data), m.site(node), shown, True)


def _exponents(loader: Any) -> Any:
    """A loader to which ``1e-4`` is a number, as it is to OmegaConf and ruamel.yaml."""
    import re

    made: Any = type("Exponents", (loader,), {})
    made.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(r"^[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)[eE][-+]?[0-9]+$"),
        list("-+0123456789."),
    )
    return made


def load_yaml(text: bytes, exponents: bool = False) -> Any:
    """Parse YAML safely; None where it cannot be parsed. PyYAML's own reading of ``1e-4`` (text) is kept.

    With ``exponents``, ``1e-4`` is a number.
    Aliases are refused when they would expand to more than a bounded number of nodes.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        data = yaml.load(text, Loader=_exponents(loader) if exponents else loader)
        return data if _few_parts(data) else None
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, UnicodeDecodeError):
        return None


MAX_PARTS = 50_000


def _few_parts(data: Any) -> bool:
    """Whether a configuration stays small when each alias in it counts as what it stands for."""
    left = MAX_PARTS
    stack = [data]
    while stack and left > 0:
        part = stack.pop()
        left -= 1
        if isinstance(part, (dict, list)):
            left -= len(part)
            if left > 0:
                stack.extend(part.values() if isinstance(part, dict) else part)
    return left > 0


@MODEL.call("yaml.safe_load", "yaml.load", "yaml.full_load", "yaml.unsafe_load", "ruamel.yaml.YAML.load")
def _load(m: Machine, c: Call) -> Value | None:
    found = text_of(m, c.args[0] if c.args else None)
    if found is None:
        return m.unknown("a YAML file that is not part of the repository", c.node, *c.args)
    data = load_yaml(found[0], c.name.startswith("ruamel."))
    return config_value(m, data, c.node, found[1]) if data is not None else m.unknown(f"{found[1]} is not YAML", c.node)
