"""Command lines by Fire and similar: a function or class is called with its defaults, or the given arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.evaluate.command_line.words import bind_line, record_of, unrecognised, words_of
from preflight.source.evaluate.library import Call, Model
from preflight.source.evaluate.library.typer import with_defaults
from preflight.source.values import Class, Func, Value, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()


def call_with_defaults(m: Machine, c: Call) -> Value | None:
    """Call what is given with its defaults and what the command line gives.

    Raises:
        UsageError: The line gives what is not taken.
    """
    from preflight.source.evaluate.calls import call
    from preflight.source.evaluate.classes import instantiate

    target = settle(c.args[0]) if c.args else None
    if isinstance(target, Func):
        # What the command line gives beyond the named parameters goes into **kwargs.
        bound = with_defaults(m, target) if m.arguments is None else bind_line(m, target, with_defaults(m, target), {})
        return call(m, bound, [], {}, c.node, target.node.args.kwarg is not None and m.arguments is None)
    if isinstance(target, Class):
        if not m.arguments or c.name == "fire.Fire":
            return instantiate(m, target, [], {}, c.node)
        line, rest = words_of(m)
        line |= {word.partition("=")[0]: word.partition("=")[2] for word in rest if "=" in word}  # chz: name=value
        made, taken = record_of(m, target, c.node, line)
        for name in line:
            if name not in taken:
                raise unrecognised("--" + name)
        return made
    return None


MODEL.call("fire.Fire", "tyro.cli", "jsonargparse.CLI", "jsonargparse.auto_cli", "defopt.run", "chz.entrypoint")(
    call_with_defaults
)
