"""Command lines by click: calling a command binds its options' defaults, or the given arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.errors import UsageError
from preflight.source.evaluate.library import Call, Model
from preflight.source.evaluate.library.argparse import Option, Parser, namespace_of
from preflight.source.values import Ext, Func, Known, Obj, Partial, Seq, Value, plain, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()


@MODEL.call("@click.command", "@click.group", "@click.Group.command", "@.command")
def _command(m: Machine, c: Call) -> Value | None:
    func = settle(c.args[0])
    if not isinstance(func, Func):
        return None
    parser = Parser()
    for decorator in func.decorators:
        if isinstance(decorator, Obj) and decorator.name in ("click.option", "click.argument"):
            option = _option(m, decorator)
            if option is not None:
                parser.options.append(option)
    namespace = namespace_of(m, parser, c.node, m.arguments if m.arguments else None)
    return Partial(func, [], dict(namespace.attrs), func.site)


def _option(m: Machine, made: Obj) -> Option | None:
    flags = [str(v.value) for v in map(settle, made.args) if isinstance(v, Known)]
    if not flags:
        return None
    names = [f for f in flags if not f.startswith("-")]
    dashed = [part for f in flags if f.startswith("-") for part in f.split("/")[:1]]
    long = max(dashed, key=len) if dashed else flags[0]
    dest = (names[0] if names else long.lstrip("-")).replace("-", "_").lower()
    option = Option(dashed, dest, made.site.node if made.site else None)
    option.default = made.kwargs.get("default")
    kind = settle(made.kwargs["type"]) if "type" in made.kwargs else None
    if isinstance(kind, Ext) and kind.name.startswith("builtins."):
        option.type = kind
    if plain(made.kwargs.get("is_flag")) or any("/" in f for f in flags):
        option.action = "store_true"
        if option.default is None:
            option.default = Known(False)
    if plain(made.kwargs.get("multiple")):
        option.action = "append"
        if option.default is None:
            option.default = Seq([], "tuple")
    option.required = bool(plain(made.kwargs.get("required"), made.name == "click.argument"))
    return option


__all__ = ["MODEL", "UsageError"]
