"""The command ``preflight``: finds its commands by their files, and turns every outcome into an exit code.

Exit codes: 0 GO, 1 NO-GO, 2 the tool failed or was misused, 3 undecidable, 130 interrupted.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

import click

from preflight import __version__
from preflight.cli.parts.grouped import Listed
from preflight.errors import PreflightError, UsageError, nearest
from preflight.listing import modules_beside

INTERRUPTED = 130
FAILED = 2
_OF_NUMBERS = {
    "is not a valid float range": "is no number",
    "is not a valid float": "is no number",
    "is not a valid integer range": "is no whole number",
    "is not a valid integer": "is no whole number",
}
_NOT_COMMANDS = ("__init__.py", "main.py")


class _Commands(Listed):
    """The commands that lie beside this file; one is imported when it is called or when help lists it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands: the files beside this one (``list_.py`` is ``list``)."""
        names = modules_beside(__file__, but=_NOT_COMMANDS)
        return sorted(name.rstrip("_").replace("_", "-") for name in names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name, or None."""
        for module in (cmd_name.replace("-", "_"), f"{cmd_name}_"):
            if module.isidentifier() and os.path.exists(
                os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{module}.py")
            ):
                command = getattr(import_module(f"preflight.cli.{module}"), "command", None)
                return command if isinstance(command, click.Command) else None
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; what is a file or a folder instead gets the hint to check it."""
        word = args[0]
        if self.get_command(ctx, word) is None and not word.startswith("-"):
            if os.path.exists(word) or word.endswith((".py", ".ipynb")):
                raise UsageError(f"no command is called {word!r}", f"did you mean preflight check {word}?")
            names = self.list_commands(ctx)
            near = nearest(word, names)
            raise UsageError(
                f"no command is called {word!r}", f"did you mean {near}?" if near else f"one of {', '.join(names)}"
            )
        return super().resolve_command(ctx, args)


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="preflight", message="%(prog)s %(version)s")
def preflight() -> None:
    """Make training with PyTorch reliable: check a script, plan its run, watch it train, find out why it failed.

    Exit codes: 0 GO, 1 NO-GO, 2 the tool failed or was misused, 3 undecidable.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is not None:
        return _run(given)
    if given[:1] in (["monitor"], ["ui"]):  # they live as long as the training that they watch
        return _run(given)
    # A check makes some hundred thousand objects that all live until its end: looking through them finds nothing.
    gc.set_threshold(1_000_000)
    status = _run(given)
    gc.freeze()  # nor is there any use in looking through them when the process ends
    return status


def _run(given: list[str]) -> int:
    """Run the command line and turn what comes of it into an exit code."""
    try:
        status = preflight.main(given, prog_name="preflight", standalone_mode=False, obj=("preflight", *given))
        _flush()
        return status if isinstance(status, int) else 0
    except PreflightError as error:
        return complain(str(error), error.hint, error.exit_code)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (click.Abort, KeyboardInterrupt):
        complain("interrupted", None, INTERRUPTED)
        return INTERRUPTED
    except click.ClickException as error:
        return complain(*_in_our_words(error), FAILED)
    except BrokenPipeError:
        silence_stdout()
        return FAILED
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            return complain(f"{error.filename}: this name is too long for a file", None, FAILED)
        if os.environ.get("PREFLIGHT_TRACEBACK"):
            import traceback

            traceback.print_exc()
        said = f"internal error: {type(error).__name__}: {error}"
        return complain(said, "please report it; PREFLIGHT_TRACEBACK=1 shows where it comes from", FAILED)


def complain(message: str, hint: str | None, status: int) -> int:
    """Say on stderr what is wrong and what to do, and return the exit code."""
    from preflight.report.parts.clean import clean, one_line

    lines = [f"preflight: error: {one_line(message)}"] + ([f"hint: {clean(hint)}"] if hint else [])
    with suppress(OSError, ValueError):  # nobody is listening
        click.echo("\n".join(lines), err=True)
    return status


def _in_our_words(error: click.ClickException) -> tuple[str, str | None]:
    context = getattr(error, "ctx", None)
    usage = f"{context.command_path} --help shows what there is" if context is not None else None
    if isinstance(error, click.NoSuchOption):
        near = _near(error)
        return f"no such option: {error.option_name}", f"did you mean {near}?" if near else usage
    near = _choice_near(error)
    usage = f"did you mean {near}?" if near else usage
    message = error.format_message().strip().rstrip(".")
    for words, ours in _OF_NUMBERS.items():
        message = message.replace(words, ours)
    return message[:1].lower() + message[1:], usage


def _near(error: click.NoSuchOption) -> str | None:
    """The option that was meant: one that is a slip away, or one made of the same words, shortened or left out."""
    there = [name for one in error.ctx.command.params for name in one.opts] if error.ctx is not None else []
    there = [name for name in there if name.startswith("--")]
    word = error.option_name.partition("=")[0]
    if "--format" in there and (shape := _format_called(word)) is not None:
        return f"--format {shape}"
    parts = word.strip("-").split("-")

    def alike(name: str) -> tuple[int, int]:
        # Each word of the option stands for one that was written, whole or shortened: seq for sequence. Else nothing does.
        own = name[2:].split("-")
        same = sum(one in parts for one in own)
        short = sum(any(one.startswith(part) or part.startswith(one) for part in parts) for one in own) - same
        return (same, short) if same + short == len(own) else (0, 0)

    named = [name for name in there if any(alike(name))] or [name for name in there if name.startswith(word)]
    best = max(named, key=lambda name: (sum(alike(name)), alike(name), -len(name)), default=None)
    return nearest(word, there, 0.9) or best or next(iter(error.possibilities or ()), None)


def _choice_near(error: click.ClickException) -> str | None:
    """The choice that was meant, where the value of an option is none of those that there are."""
    kind = getattr(getattr(error, "param", None), "type", None)
    if not isinstance(kind, click.Choice):
        return None
    word, said, _ = error.message.partition(" is not one of ")
    return nearest(word.strip("'"), map(str, kind.choices)) if said else None


def _format_called(word: str) -> str | None:
    """The format that an option is called like, as other programs have ``--json``."""
    from preflight.report.render import formats

    name = word.strip("-")
    return name if name in formats() else None


def _flush() -> None:
    # A language server closes what it spoke over before it ends.
    if sys.stdout is not None and not sys.stdout.closed:
        sys.stdout.flush()


def silence_stdout() -> None:
    """Let what is still buffered for a reader that has gone away go nowhere, so that the exit is quiet."""
    try:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        pass


__all__ = ["complain", "main", "preflight", "silence_stdout"]
