"""A command whose help shows its options in named groups, and whose words may be subcommands."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from preflight.errors import UsageError, nearest
from preflight.listing import modules_beside

REST = "Output"
_WHOLE = 1000
"""Letters up to which a sentence is not cut."""


class Grouped(click.Option):
    """An option that belongs to a group of the help."""

    def __init__(self, *declarations: Any, group: str = REST, **more: Any) -> None:
        """Keep the group."""
        super().__init__(*declarations, **more)
        self.group = group


class GroupedCommand(click.Command):
    """A command with groups of options, and the subcommands of its group at the end of its help."""

    parts: WithDefault | None = None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options group by group."""
        rows: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            row = option.get_help_record(ctx) if isinstance(option, click.Option) else None
            if row is not None:
                rows.setdefault(getattr(option, "group", REST), []).append(row)
        last = rows.pop(REST, [])
        for name, lines in [*rows.items(), (REST, last)]:
            with formatter.section(name):
                formatter.write_dl(lines)
        if self.parts is not None:
            self.parts.format_commands(ctx, formatter)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Stand in the place of the group, so that usage and errors do not name what nobody typed."""
        if self.parts is not None and parent is not None:
            info_name, parent = parent.info_name, parent.parent
        return super().make_context(info_name, args, parent=parent, **extra)


class Listed(click.Group):
    """Commands that are listed with whole sentences, and shown when none of them is named."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands, each with the first sentence of its help."""
        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [
            (name, one.get_short_help_str(limit=_WHOLE)) for name, one in found if one is not None and not one.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Show the help where nothing is asked for, which is a misuse all the same."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit(2)
        return super().parse_args(ctx, args)


class FromFolder(Listed):
    """Subcommands that are the files of a package; one is imported when it is called or when help lists it."""

    def __init__(self, name: str, package: str, **more: Any) -> None:
        """Keep the package."""
        super().__init__(name, context_settings={"help_option_names": ["-h", "--help"]}, **more)
        self.package = package

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the subcommands: the files of the package."""
        names = modules_beside(import_module(self.package).__file__ or "")
        return sorted(name.rstrip("_").replace("_", "-") for name in names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand of a name, or None."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command = import_module(f"{self.package}.{cmd_name.replace('-', '_')}").command
        return command if isinstance(command, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand; one that is not there gets the nearest as a hint."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            names = self.list_commands(ctx)
            near = nearest(args[0], names)
            raise UsageError(
                f"{ctx.command_path} has no command {args[0]!r}",
                f"did you mean {near}?" if near else f"one of {', '.join(names)}",
            )
        return super().resolve_command(ctx, args)


class WithDefault(FromFolder):
    """Subcommands that are the files of a package, and a command for everything else.

    A first word that equals a subcommand is the subcommand; ``./compare`` is a file.
    """

    def __init__(self, name: str, package: str, default: GroupedCommand) -> None:
        """Keep the package, and the command that is meant when no subcommand is named."""
        super().__init__(name, package, add_help_option=False)
        self.default = default
        self.help = default.help
        default.parts = self

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand of a name; any other name is the default's."""
        return super().get_command(ctx, cmd_name) or self.default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the default's name before words that name no subcommand."""
        if not args or args[0] not in self.list_commands(ctx):
            args = [self.default.name or "", *args]
        return super().parse_args(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the help of the default, which ends with the subcommands."""
        self.default.format_help(ctx, formatter)
