"""Command lines by typer: parameters' defaults are the options' defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.evaluate.library import Call, Model
from preflight.source.values import Func, Known, Obj, Partial, Value, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()


@MODEL.call("@.command", "@typer.Typer.command")
def _command(m: Machine, c: Call) -> Value | None:
    func = settle(c.args[0])
    return with_defaults(m, func) if isinstance(func, Func) else None


@MODEL.call("typer.run")
def _run(m: Machine, c: Call) -> Value | None:
    from preflight.source.evaluate.calls import call

    func = settle(c.args[0]) if c.args else None
    return call(m, with_defaults(m, func), [], {}, c.node) if isinstance(func, Func) else None


def with_defaults(m: Machine, func: Func) -> Partial:
    """A function with each option's default given; the defaults are soft."""
    given: dict[str, Value] = {}
    spec = func.node.args
    for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs):
        default = func.defaults.get(arg.arg)
        settled = settle(default) if default is not None else None
        if isinstance(settled, Obj) and settled.name in ("typer.Option", "typer.Argument"):
            inner = settled.argument(0, "default")
            settled = settle(inner) if inner is not None else None
        if isinstance(settled, Known) and settled.value is not Ellipsis:
            given[arg.arg] = Known(settled.value, settled.site, f"default of --{arg.arg.replace('_', '-')}", True)
        elif settled is not None and not isinstance(settled, Known):
            given[arg.arg] = settled
        else:
            given[arg.arg] = m.unknown(f"--{arg.arg} is required and was not given", func.node)
    return Partial(func, [], given, func.site)
