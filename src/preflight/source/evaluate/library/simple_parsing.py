"""simple-parsing: dataclasses as command lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.evaluate.library import Call, Model
from preflight.source.evaluate.library.argparse import Option, new_parser, parser_of
from preflight.source.values import Class, Value, plain, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()


@MODEL.call("simple_parsing.ArgumentParser")
def _parser(m: Machine, c: Call) -> Value | None:
    return new_parser(m, c)


def add_arguments(m: Machine, c: Call) -> Value | None:
    """``parser.add_arguments(Config, dest="config")``: the namespace gets an instance of the dataclass."""
    from preflight.source.evaluate.classes import instantiate

    parser, kind, dest = parser_of(c.receiver), settle(c.args[0]) if c.args else None, plain(c.argument(1, "dest"))
    if parser is not None and isinstance(kind, Class) and isinstance(dest, str):
        option = Option(["--" + dest], dest, c.node)
        option.default = instantiate(m, kind, [], {}, c.node)
        parser.options.append(option)
    return m.known(None)


@MODEL.call("simple_parsing.parse")
def _parse(m: Machine, c: Call) -> Value | None:
    from preflight.source.evaluate.classes import instantiate

    kind = settle(c.args[0]) if c.args else None
    return instantiate(m, kind, [], {}, c.node) if isinstance(kind, Class) else None
