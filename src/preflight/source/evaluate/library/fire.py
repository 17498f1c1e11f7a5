"""Command lines by Fire and similar: a function or class is called with its defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.evaluate.library import Call, Model
from preflight.source.evaluate.library.typer import with_defaults
from preflight.source.values import Class, Func, Value, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()


def call_with_defaults(m: Machine, c: Call) -> Value | None:
    """Call what is given with its defaults."""
    from preflight.source.evaluate.calls import call
    from preflight.source.evaluate.classes import instantiate

    target = settle(c.args[0]) if c.args else None
    if isinstance(target, Func):
        # What the command line gives beyond the named parameters goes into **kwargs.
        return call(m, with_defaults(m, target), [], {}, c.node, target.node.args.kwarg is not None)
    if isinstance(target, Class):
        return instantiate(m, target, [], {}, c.node)
    return None


MODEL.call("fire.Fire", "tyro.cli", "jsonargparse.CLI", "jsonargparse.auto_cli", "defopt.run", "chz.entrypoint")(
    call_with_defaults
)
