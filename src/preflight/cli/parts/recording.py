"""What ``monitor collect`` and ``monitor run`` share: their options, and the program between a beginning and an end."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from preflight.cli.parts.options import SCRIPT_ARGUMENTS, ScriptCommand
from preflight.errors import UsageError
from preflight.monitor.collect.settings import GRACE, YOUNG, Settings, allowance, detail

F = TypeVar("F", bound=Callable[..., Any])


class ProgramCommand(ScriptCommand):
    """A command that starts the program after ``--``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take what is after ``--`` as the program, and say so where it was forgotten."""
        if "--" not in args and "-h" not in args and "--help" not in args:
            valued = {n for one in self.get_params(ctx) if not getattr(one, "is_flag", False) for n in one.opts}
            before = ["", *args]
            first = next(
                (at for at, word in enumerate(args) if not word.startswith("-") and before[at] not in valued), None
            )
            start = next((at for at, word in enumerate(args) if _starts_program(word)), first)
            if start is None:
                raise UsageError(
                    "no program is given", f"put it after --, as in: {ctx.command_path} -- python train.py"
                )
            raise UsageError(
                "the program has to stand after --", f"did you mean: {ctx.command_path} -- {' '.join(args[start:])}?"
            )
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Show the program in the usage line."""
        return [*click.Command.collect_usage_pieces(self, ctx), "-- PROGRAM [ARGUMENTS]"]


def _starts_program(word: str) -> bool:
    return word in ("python", "python3", "torchrun", "accelerate", "deepspeed", "srun", "mpirun") or word.endswith(
        ".py"
    )


def recording(command: F) -> F:
    """Add what may be said about a recording."""
    options = (
        click.option("-o", "--output", metavar="DIR",
                     help="The trace folder (default: .preflight/monitor/SCRIPT-NUMBER)."),
        click.option("--force", is_flag=True, help="Write over a trace that is in the folder already."),
        click.option("--invariants", multiple=True, metavar="FILE", help=_INVARIANTS),
        click.option("--budget", type=click.FloatRange(0, 100), metavar="PERCENT",
                     help="The share of the run's time that recording may take; 0: no limit (default: 2, once "
                     f"recording has cost {GRACE:.0f} seconds where only pauses keep it)."),
        click.option("--every", type=click.IntRange(min=0), metavar="N",
                     help="After the first iterations, record every Nth one in detail; 0: none (default: 16)."),
        click.option("--first", type=click.IntRange(min=0), metavar="N",
                     help="How many iterations at the beginning are recorded in detail (default: 5; without --every up "
                     f"to {YOUNG} where that stays within the budget, or steps are short and it takes two seconds in all)."),
        click.option("--api", is_flag=True, help="Also calls of torch's own functions, in detailed iterations."),
        click.option("--quiet", is_flag=True, help="Say nothing on stderr but alarms and errors."),
        click.option("--no-color", is_flag=True, help="No colours; NO_COLOR in the environment does the same."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


_INVARIANTS = "What must hold, from monitor infer (default: the shipped library); only what it needs is recorded."


class Session:
    """One program, from the folder for its trace to its exit code."""

    def __init__(self, context: click.Context, given: dict[str, Any], control: bool = False) -> None:
        """Refuse what cannot work before anything is written."""
        from preflight.monitor.library_of import in_force
        from preflight.monitor.live.launch import resolve
        from preflight.monitor.recording import free_folder, keep, prepare

        self.command = resolve(context.meta.get(SCRIPT_ARGUMENTS) or ())
        self.invariants = in_force(given["invariants"], catalog())
        self.folder = Path(given["output"]) if given["output"] else free_folder(self.command)
        prepare(self.folder, given["force"])
        if given["invariants"]:
            keep(self.folder, self.invariants)
        self.settings = self._settings(given, control)
        self.pid: int | None = None

    def _settings(self, given: dict[str, Any], control: bool) -> Any:
        from preflight.monitor.library_of import needs_of

        folder = self.folder.resolve()
        return Settings(
            folder=str(folder),
            **detail(given["first"], given["every"])._asdict(),
            **allowance(given["budget"])._asdict(),
            needs=tuple(sorted(needs_of(self.invariants))) if given["invariants"] else (),
            api=given["api"],
            control=str(folder / "control") if control else None,
        )

    def go(self, meanwhile: Callable[[subprocess.Popen[bytes]], None]) -> int:
        """Run the program, with ``run.json`` before and after; return its exit code, also where the disk is full then."""
        from preflight.cli.parts.live import remark
        from preflight.errors import TraceError
        from preflight.monitor.live.launch import run
        from preflight.monitor.recording import Recording

        about = Recording(self.folder, self.command, self.settings)
        about.begin()

        def watched(process: subprocess.Popen[bytes]) -> None:
            self.pid = process.pid
            meanwhile(process)

        code: int | None = None
        try:
            code = run(self.command, self.settings, watched)
        finally:
            try:
                about.end(self.pid, code, _processes(self.folder))
            except TraceError as error:
                remark(f"how the program ended is not in the trace: {error}")
        return code

    def seal(self) -> str | None:
        """Seal the trace; say why not where that is so."""
        from preflight.errors import TraceError
        from preflight.monitor.trace.seal import seal

        try:
            seal(self.folder, broken=True)
        except TraceError as error:
            return str(error)
        return None

    def nothing(self) -> str | None:
        """Why nothing was recorded, or None where something was."""
        from preflight.monitor.recording import why_nothing

        return why_nothing(self.folder, self.command)


def _processes(folder: Path) -> Sequence[Any]:
    from preflight.monitor.trace.folder import TraceFolder

    trace = TraceFolder(folder, kinds=frozenset())
    for _ in trace.poll():
        pass
    return trace.processes


def catalog() -> tuple[str, ...]:
    """The folders of the catalog of the user's project."""
    from preflight.check.files.project_config import load_project

    return load_project(".").catalog()
