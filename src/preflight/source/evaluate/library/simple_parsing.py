"""simple-parsing: dataclasses as command lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.evaluate.command_line.words import record_of, unrecognised, words_of
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
    parser, kind, dest = parser_of(c.receiver), settle(c.args[0]) if c.args else None, plain(c.argument(1, "dest"))
    if parser is not None and isinstance(kind, Class) and isinstance(dest, str):
        option = Option(["--" + dest], dest, c.node)
        option.default, taken = record_of(m, kind, c.node, words_of(m)[0])
        parser.options.append(option)
        for name in taken:  # so that the line fits; the record has its value already
            flags = ["--" + name, "--" + name.replace("_", "-")]
            known = Option(flags[: 1 + (flags[0] != flags[1])], f"{dest}.{name}", c.node)
            known.nargs = "?"
            parser.options.append(known)
    return m.known(None)


@MODEL.call("simple_parsing.parse")
def _parse(m: Machine, c: Call) -> Value | None:
    kind = settle(c.args[0]) if c.args else None
    if not isinstance(kind, Class):
        return None
    line, _ = words_of(m)
    made, taken = record_of(m, kind, c.node, line)
    for name in line:
        if name not in taken and name != "config_path":
            raise unrecognised("--" + name)
    return made
