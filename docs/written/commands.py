"""The page of all commands: what ``--help`` says."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import click

WIDTH = 100


def commands(
    command: click.Command, name: str, above: click.Context | None = None
) -> Iterator[tuple[str, click.Context]]:
    """Yield every command that is not hidden, as it is typed, with its context; lazily loaded ones too."""
    settings = {**command.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    context = click.Context(command, info_name=name.split()[-1], parent=above, **settings)
    yield name, context
    if isinstance(command, click.Group):
        for word in command.list_commands(context):
            inner = command.get_command(context, word)
            if inner is None:
                raise LookupError(f"`{name} {word}` is listed and is not there")
            if not inner.hidden:
                yield from commands(inner, f"{name} {word}", context)


def root() -> click.Group:
    """Return the click group behind the command ``preflight``."""
    main = importlib.import_module("preflight.cli.main")
    groups = {id(value): value for value in vars(main).values() if isinstance(value, click.Group)}
    if len(groups) != 1:
        raise LookupError(f"preflight.cli.main holds {len(groups)} click groups; one is expected")
    return next(iter(groups.values()))


def command_page() -> str:
    """Return the page of all commands: what ``--help`` says of each."""
    parts = ["# Commands\n\nWritten by `make docs` from what `--help` says.\n"]
    for name, context in commands(root(), "preflight"):
        text = "\n".join(line.rstrip() for line in context.get_help().splitlines())
        parts.append(f"## `{name}`\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def pages() -> dict[str, str]:
    """Return the page by its path in the reference."""
    return {"commands.md": command_page()}
