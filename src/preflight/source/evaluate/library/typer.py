"""Command lines by typer: parameters' defaults are the options' defaults."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from preflight.source.evaluate.command_line.words import bind_line, inner_type, unrecognised
from preflight.source.evaluate.library import Call, Model
from preflight.source.values import Func, Known, Obj, Partial, Value, plain, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()
Command = TypeVar("Command")


@MODEL.call("@typer.Typer.command")
def _command(m: Machine, c: Call) -> Value | None:
    """Keep the command; the application calls it."""
    func = settle(c.args[0])
    app = settle(c.receiver.receiver) if isinstance(c.receiver, Obj) and c.receiver.receiver is not None else None
    if not isinstance(func, Func) or not isinstance(app, Obj):
        return None
    name = plain(c.receiver.argument(0, "name")) if isinstance(c.receiver, Obj) else None
    if app.data is None:
        app.data = {}
    app.data[name if isinstance(name, str) else func.qualname.rpartition(".")[2].replace("_", "-")] = func
    return func


@MODEL.call("typer.Typer.()")
def _app(m: Machine, c: Call) -> Value | None:
    """Run the application: its only command, or the one that the command line names first."""
    from preflight.source.evaluate.calls import call

    commands = c.receiver.data if isinstance(c.receiver, Obj) and isinstance(c.receiver.data, dict) else {}
    if len(commands) == 1:
        return call(m, with_line(m, next(iter(commands.values()))), [], {}, c.node)
    return chosen(m, commands, lambda func: call(m, with_line(m, func), [], {}, c.node))


def chosen(m: Machine, commands: dict[str, Command], run: Callable[[Command], Value]) -> Value | None:
    """Run the command that the command line names first, on the words behind it; None where nothing names one.

    Raises:
        UsageError: There is no such command.
    """
    if not commands or not m.arguments:
        return None
    name = next((word for word in m.arguments if not word.startswith("-")), m.arguments[0])
    if name not in commands:
        raise unrecognised(name)
    whole = m.arguments
    m.arguments = whole[whole.index(name) + 1 :]
    try:
        return run(commands[name])
    finally:
        m.arguments = whole


@MODEL.call("typer.run")
def _run(m: Machine, c: Call) -> Value | None:
    from preflight.source.evaluate.calls import call

    func = settle(c.args[0]) if c.args else None
    return call(m, with_line(m, func), [], {}, c.node) if isinstance(func, Func) else None


def with_line(m: Machine, func: Func) -> Partial:
    """A function with its options' defaults, or the given arguments."""
    defaults = with_defaults(m, func)
    if m.arguments is None:
        return defaults
    spellings: dict[str, str] = {}
    negatives: dict[str, str] = {}
    options: list[str] = []
    spec = func.node.args
    for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs):
        kind, words = _marked(arg.annotation)
        made = settle(func.defaults[arg.arg]) if arg.arg in func.defaults else None
        if isinstance(made, Obj) and made.name in ("typer.Option", "typer.Argument"):
            kind = made.name.partition(".")[2]
            words = [v.value for v in map(settle, made.args[1:]) if isinstance(v, Known) and isinstance(v.value, str)]
        if kind == "Option" or (made is not None and kind != "Argument"):
            options.append(arg.arg)
            for word in words:
                on, _, off = word.partition("/")
                spellings[_name(on)] = arg.arg
                if off:
                    negatives[_name(off)] = arg.arg
    return bind_line(m, func, defaults, spellings, options, negatives)


def _name(flag: str) -> str:
    return flag.strip().lstrip("-").replace("-", "_")


def _marked(annotation: ast.AST | None) -> tuple[str, list[str]]:
    """What ``Annotated[float, typer.Option("--rate")]`` makes of a parameter, and its flags; empty where it says nothing."""
    if inner_type(annotation) is annotation or not isinstance(annotation, ast.Subscript):
        return "", []
    for part in ast.walk(annotation.slice):
        name = getattr(part.func, "attr", getattr(part.func, "id", "")) if isinstance(part, ast.Call) else ""
        if isinstance(part, ast.Call) and name in ("Option", "Argument"):
            return name, [a.value for a in part.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return "", []


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
