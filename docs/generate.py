"""Writes the reference pages that come from the program itself; ``make docs`` runs it and a test compares.

``python docs/generate.py`` writes, ``python docs/generate.py --check`` only says which pages are out of date.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import click

REFERENCE = Path(__file__).resolve().parent / "reference"
WIDTH = 100


def commands(
    command: click.Command, name: str, above: click.Context | None = None
) -> Iterator[tuple[str, click.Context]]:
    """Yield every command that is not hidden, as it is typed, with its context; lazily loaded ones too."""
    context = click.Context(
        command, info_name=name.split()[-1], parent=above, terminal_width=WIDTH, max_content_width=WIDTH
    )
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
    """Return every generated page by its name in ``docs/reference``."""
    return {"commands.md": command_page()}


def stale() -> list[str]:
    """Return the names of the pages that are missing or differ from what would be written now."""
    paths = {name: REFERENCE / name for name in pages()}
    return [
        name for name, text in pages().items() if not paths[name].is_file() or paths[name].read_text("utf-8") != text
    ]


def main() -> int:
    """Write the pages, or check them."""
    if "--check" in sys.argv[1:]:
        out_of_date = stale()
        for name in out_of_date:
            print(f"docs/reference/{name} is out of date; run `make docs`", file=sys.stderr)
        return 1 if out_of_date else 0
    for name, text in pages().items():
        (REFERENCE / name).write_text(text, encoding="utf-8", newline="\n")
        print(f"docs/reference/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
