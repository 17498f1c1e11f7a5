"""Command lines by click: calling a command binds its options' defaults, or the given arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.evaluate.library import Call, Model
from preflight.source.evaluate.library.argparse import Option, Parser, namespace_of
from preflight.source.evaluate.library.typer import chosen
from preflight.source.values import Ext, Func, Known, Obj, Partial, Seq, Value, plain, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()


@MODEL.call("@click.command", "@click.group", "@click.Group.command", "@click.Group.group")
def _command(m: Machine, c: Call) -> Value | None:
    """A command, which takes its options when it is called; one of a group is kept there."""
    func = settle(c.args[0])
    if not isinstance(func, Func):
        return None
    made = m.made("call", "click.Group" if c.name.endswith("group") else "click.Command", c.node)
    made.data = (func, {})
    for option, value in namespace_of(m, _parser(m, func), c.node, None).attrs.items():
        if isinstance(value, Known):
            func.defaults.setdefault(option, value)  # for a command that nothing in the script calls
    decorator = c.receiver
    name = plain(decorator.argument(0, "name")) if isinstance(decorator, Obj) else None
    _register(decorator.receiver if isinstance(decorator, Obj) else None, made, name)
    return made


def _register(group: Value | None, command: Obj, name: object = None) -> None:
    holder = settle(group) if group is not None else None
    if isinstance(holder, Obj) and holder.name == "click.Group" and isinstance(holder.data, tuple):
        own = command.data[0].qualname.rpartition(".")[2].replace("_", "-")
        holder.data[1][name if isinstance(name, str) else own] = command


@MODEL.call("click.Group.add_command")
def _add_command(m: Machine, c: Call) -> Value | None:
    command = settle(c.args[0]) if c.args else None
    if isinstance(command, Obj) and isinstance(command.data, tuple):
        _register(c.receiver, command, plain(c.argument(1, "name")))
    return m.known(None)


@MODEL.call("click.Command.()", "click.Command.main")
def _run(m: Machine, c: Call) -> Value | None:
    command = settle(c.receiver) if c.receiver is not None else None
    return _called(m, command, c) if isinstance(command, Obj) else None


def _called(m: Machine, command: Obj, c: Call) -> Value | None:
    from preflight.source.evaluate.calls import call

    if command.name == "click.Group":
        return _run_group(m, Call(c.name, command, [], {}, c.node, c.open, c.event))
    return call(m, _bound(m, command.data[0], c, False), [], dict(c.kwargs), c.node)


@MODEL.call("click.Group.()", "click.Group.main")
def _run_group(m: Machine, c: Call) -> Value | None:
    """Run a group: its own function, then the command that the command line names, or the only one there is."""
    from preflight.source.evaluate.calls import call

    group = settle(c.receiver) if c.receiver is not None else None
    if not isinstance(group, Obj) or not isinstance(group.data, tuple):
        return None
    func, commands = group.data
    call(m, _bound(m, func, c, True), [], {}, c.node)
    if not m.arguments:
        return _called(m, next(iter(commands.values())), c) if len(commands) == 1 else None
    return chosen(m, commands, lambda command: _called(m, command, c) or m.known(None))


def _bound(m: Machine, func: Func, c: Call, partial: bool) -> Partial:
    """The function of a command with its options: their defaults, or what is given.

    Raises:
        UsageError: The command line does not fit.
    """
    parser = _parser(m, func)
    namespace = namespace_of(m, parser, c.node, m.arguments if m.arguments else None, partial)
    return Partial(func, [], dict(namespace.attrs), func.site)


def _parser(m: Machine, func: Func) -> Parser:
    parser = Parser()
    for decorator in func.decorators:
        if isinstance(decorator, Obj) and decorator.name in ("click.option", "click.argument"):
            option = _option(m, decorator)
            if option is not None:
                parser.options.append(option)
    return parser


def _option(m: Machine, made: Obj) -> Option | None:
    flags = [str(v.value) for v in map(settle, made.args) if isinstance(v, Known)]
    if not flags:
        return None
    names = [f for f in flags if not f.startswith("-")]
    dashed = [f.partition("/")[0].rstrip() for f in flags if f.startswith("-")]
    long = next((f for f in dashed if f.startswith("--")), dashed[0] if dashed else flags[0])
    # A name of its own is taken as it stands; click makes one of the first long flag, or of an argument's.
    dest = names[0] if names and dashed else long.lstrip("-").replace("-", "_").lower()
    option = Option(dashed, dest, made.site.node if made.site else None)
    option.default = made.kwargs.get("default")
    kind = settle(made.kwargs["type"]) if "type" in made.kwargs else None
    if isinstance(kind, Ext) and kind.name.startswith("builtins."):
        option.type = kind
    before = plain(option.default) if option.default is not None else None
    if "type" not in made.kwargs and isinstance(before, (int, float)) and not isinstance(before, bool):
        option.type = Ext(f"builtins.{type(before).__name__}")  # click takes the type of the default
    if plain(made.kwargs.get("is_flag")) or any("/" in f for f in flags):
        paired = any("/--no-" in f.replace(" ", "") for f in flags)
        option.action = "argparse.BooleanOptionalAction" if paired else "store_true"
        if option.default is None:
            option.default = Known(False)
    if plain(made.kwargs.get("multiple")):
        option.action = "append"
        if option.default is None:
            option.default = Seq([], "tuple")
    many = plain(made.kwargs.get("nargs"))
    if isinstance(many, int) and many != 1:
        option.nargs = many if many > 1 else "*"
    if plain(made.kwargs.get("count")):
        option.action = "count"
        option.default = option.default or Known(0)
    option.required = bool(plain(made.kwargs.get("required"), made.name == "click.argument" and option.nargs != "*"))
    return option
