"""Starts the watched program: its own interpreter, its own output, its own exit code; only the environment differs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType

from preflight.errors import UsageError, nearest
from preflight.monitor import collect
from preflight.monitor.collect.settings import VARIABLE, Settings

HOOK = Path(collect.__file__).resolve().parent / "hook"
_PASSED_ON = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGCONT")


def environment(settings: Settings, own: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment in which every Python child records itself."""
    known = dict(os.environ if own is None else own)
    path = known.get("PYTHONPATH")
    known["PYTHONPATH"] = str(HOOK) + (os.pathsep + path if path else "")
    known[VARIABLE] = settings.text()
    return known


def resolve(command: Sequence[str]) -> list[str]:
    """The command with a program that exists; a script alone is run with the Python of the environment.

    Raises:
        UsageError: When there is no command, or its program is not found.
    """
    if not command:
        raise UsageError("no program is given", "put it after --, as in: preflight monitor run -- python train.py")
    program = command[0]
    if program.endswith(".py") and os.path.isfile(program) and not os.access(program, os.X_OK):
        raise UsageError(f"{program!r} is a script, not a program", f"did you mean: -- python {' '.join(command)}?")
    _refuse_a_notebook(command)
    if shutil.which(program) is None:
        near = nearest(program, ["python", "python3", "torchrun", "accelerate", "deepspeed", "srun", "mpirun"])
        there = f"activate the environment that has {program}, or give its path"
        hint = there if near == program else f"did you mean {near}?" if near else None
        raise UsageError(f"no program is called {program!r}" + (" here" if near == program else ""), hint)
    script = next((word for word in command[1:] if word.endswith(".py")), None)
    runs_script = "python" in os.path.basename(program) and len(command) > 1 and command[1] == script
    if script is not None and runs_script and not os.path.isfile(script):
        near = nearest(os.path.basename(script), _scripts_in(os.path.dirname(script)))
        meant = os.path.join(os.path.dirname(script), near) if near else None
        raise UsageError(f"there is no file {script!r}", f"did you mean {meant}?" if meant else None)
    return list(command)


def _refuse_a_notebook(command: Sequence[str]) -> None:
    notebook = next((word for word in command[:2] if word.endswith(".ipynb")), None)
    if notebook is not None and (notebook == command[0] or "python" in os.path.basename(command[0])):
        script = notebook.removesuffix(".ipynb") + ".py"
        hint = f"jupyter nbconvert --to script {notebook}, then: preflight monitor run -- python {script}"
        raise UsageError(f"{notebook!r} is a notebook, not a program", hint)


def _scripts_in(folder: str) -> list[str]:
    """The names of the Python files of a folder, none where it cannot be read."""
    try:
        return sorted(name for name in os.listdir(folder or ".") if name.endswith(".py"))
    except OSError:
        return []


def run(command: Sequence[str], settings: Settings, meanwhile: Callable[[subprocess.Popen[bytes]], None]) -> int:
    """Run the command to its end, passing signals on.

    Args:
        command: The program and its arguments.
        settings: What is recorded.
        meanwhile: Called once with the process; returns when the process has ended.

    Returns:
        The exit code; 128 and the number of the signal when one ended it, as a shell would say.
    """
    process = subprocess.Popen(list(command), env=environment(settings))
    before: dict[int, object] = {}

    def pass_on(number: int, frame: FrameType | None) -> None:
        if process.poll() is None:
            process.send_signal(number)

    for name in _PASSED_ON:
        number = getattr(signal, name, None)
        if number is not None:
            before[number] = signal.signal(number, pass_on)

    def interrupted(number: int, frame: FrameType | None) -> None:
        if not _at_the_keyboard():
            pass_on(number, frame)

    before[signal.SIGINT] = signal.signal(signal.SIGINT, interrupted)
    try:
        meanwhile(process)
        code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
    return 128 - code if code < 0 else code


def _at_the_keyboard() -> bool:
    """Whether an interrupt may come from a keyboard: a terminal sends it to all processes before it, the program too."""
    if sys.platform == "win32":
        return True
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
