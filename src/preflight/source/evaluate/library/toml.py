"""TOML files that lie beside the script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.evaluate.library import Call, Model
from preflight.source.evaluate.library.yaml import config_value, text_of
from preflight.source.values import Value

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()


@MODEL.call("toml.load", "toml.loads", "tomllib.load", "tomllib.loads", "tomli.load", "tomli.loads")
def _load(m: Machine, c: Call) -> Value | None:
    import msgspec

    found = text_of(m, c.args[0] if c.args else None)
    if found is None:
        return m.unknown("a TOML file that is not part of the repository", c.node, *c.args)
    try:
        return config_value(m, msgspec.toml.decode(found[0]), c.node, found[1])
    except (msgspec.DecodeError, ValueError, RecursionError):
        return m.unknown(f"{found[1]} is not TOML", c.node)
