"""From a job script to the training that it starts: the launch line, with the numbers of the job in it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from preflight.errors import InputError
from preflight.source.jobs.resources import Directive, Resources, directives, options_of, resources
from preflight.source.jobs.shell import UNKNOWN, Shell, number
from preflight.source.jobs.words import commands
from preflight.source.launcher import PROGRAMS

ENDINGS = (".sh", ".bash", ".slurm", ".sbatch", ".sub", ".job")
MOST_BYTES = 1_000_000
_DEPTH, _MOST_COMMANDS = 4, 20_000
"""Scripts that call scripts are followed so deep, and so many commands are looked at."""
_SHELLS = ("bash", "sh", "zsh", "dash")
# What these are given is not run here: it is shown, installed, copied, or run before the job.
_NOT_STARTING = frozenset(
    "echo printf cat set unset module ml pip pip3 mkdir cp mv rm ls test [ [[ which type kill pkill wait sleep "
    "trap ulimit grep awk sed tee scontrol sacct nvidia-smi git wget curl tar rsync for case read shift exit return function".split()
)
_CONTROL = frozenset("if then else elif while until do done fi esac { } ! time exec nohup eval".split())
_TRAINING = (".py", ".ipynb", ".pyw")
_MANY_HOSTS = re.compile(
    r"\b(?:ssh|pdsh|clush|parallel|dsh|mpirun|mpiexec|submitit|ray|ibrun|jsrun|aprun|prun|horovodrun)\b"
)
"""Programs that reach other machines in ways that are not followed."""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A program that the job starts.

    Attributes:
        script: The Python file, as the line names it. module: Whether it is named as a module (``-m``).
        arguments: Its arguments. words: The whole line, with what is known put in.
        path: The shell script that the line stands in. line: Its line there, from 1.
        folder: The folder that the script has changed to, relative to where it began; None where that is unknown.
        unknown: Words whose value only the running job knows; they are left out of the line.
        through_srun: Whether a launcher of the scheduler starts it on every node.
        tasks_per_node: How often ``srun`` starts the line on each node; None where another program does.
        outputs: Patterns of files that ``srun`` writes its output to.
    """

    script: str
    module: bool = False
    arguments: tuple[str, ...]
    words: tuple[str, ...]
    path: str
    line: int
    folder: str | None = ""
    unknown: tuple[str, ...] = ()
    through_srun: bool = False
    tasks_per_node: int | None = None
    outputs: tuple[str, ...] = ()

    @property
    def launch(self) -> str:
        """The launch line."""
        return shlex.join(self.words)


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job script.

    Attributes:
        path: The file.
        resources: What it asks for.
        starts: The Python programs that it starts, in order.
        late: Lines with ``#SBATCH`` that stand after the first command, so that Slurm does not read them.
        scheduled: Whether it asks Slurm for anything.
        reaches: Whether it may start programs on other machines in a way that is not followed.
    """

    path: str
    resources: Resources
    starts: tuple[Start, ...] = ()
    late: tuple[Directive, ...] = ()
    scheduled: bool = False
    reaches: bool = False


def is_job_script(path: str) -> bool:
    """Whether a file is a shell script, by its ending or its first line."""
    if path.endswith(ENDINGS):
        return True
    if path.endswith(_TRAINING) or not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            first = file.readline(200)
    except OSError:
        return False
    return bool(re.match(rb"#!.*\b(?:bash|sh|zsh|dash)\b", first))


def read_job(path: str, arguments: Sequence[str] = (), options: Sequence[str] = ()) -> Job:
    """Read a job script and the shell scripts that it calls.

    Args:
        path: The script.
        arguments: What it is started with.
        options: Options of ``sbatch`` on the command line; they win over those in the script.

    Raises:
        InputError: It cannot be read.
    """
    text = _text(path)
    written, late = directives(text)
    asked = written | options_of(options)[0]
    given = resources(asked)
    shell = Shell(given.variables, tuple(arguments), path)
    found = tuple(_Following(given).text(text, _Place(path, trail=(os.path.realpath(path),)), shell))
    return Job(
        path=path, resources=given, starts=found, late=tuple(late) if asked else (), scheduled=bool(asked),
        reaches=_MANY_HOSTS.search(text) is not None,
    )  # fmt: skip


def _text(path: str) -> str:
    try:
        if os.path.getsize(path) > MOST_BYTES:
            raise InputError(f"{path} is too large for a job script")
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().replace("\r\n", "\n")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None


class _Place(msgspec.Struct, frozen=True):
    """Where a text stands.

    Attributes:
        path: The file.
        before: The launcher that runs the text on every node (``srun -N 4``), or nothing.
        trail: The files that have called it, and itself. depth: How many texts have called this one.
        line: The line of the text as a whole, where it is a word of another command.
    """

    path: str
    before: tuple[str, ...] = ()
    trail: tuple[str, ...] = ()
    depth: int = 0
    line: int | None = None


class _Following:
    """Follows a job through its commands and the scripts that it calls, up to a number of commands."""

    def __init__(self, given: Resources) -> None:
        self.given = given
        self.left = _MOST_COMMANDS

    def text(self, text: str, place: _Place, shell: Shell) -> Iterator[Start]:
        """Yield what a text starts."""
        for command in commands(text):
            self.left -= 1
            if self.left < 0:
                return
            words = _without_control(shell.assign(command))
            here = place if place.line else msgspec.structs.replace(place, line=command.line)
            if not words or _base(words[0]) in _NOT_STARTING:
                continue
            if words[0] in ("cd", "pushd"):
                shell.variables["PWD"] = _changed(shell.variables.get("PWD", ""), words[1:])
            elif len(inner := words[0].split()) > 1 and _base(inner[0]) in PROGRAMS:
                yield from self.words((*inner, *words[1:]), here, shell)  # eval "$COMMAND"
            else:
                yield from self.words(words, here, shell)

    def words(self, words: tuple[str, ...], place: _Place, shell: Shell) -> Iterator[Start]:
        """Yield what a command starts."""
        at = _program(words)
        if at is None:
            return
        program, rest = words[at], words[at + 1 :]
        name = _base(program)
        if PROGRAMS.get(name) in ("slurm", "mpi") and name != "sbatch":
            inner = _program(rest)
            if inner is not None:
                launcher = (name, *_known(rest[:inner])[0])
                yield from self.words(rest[inner:], msgspec.structs.replace(place, before=launcher), shell)
        elif name in _SHELLS and (said := _commands_of(rest)) is not None:
            if place.depth < _DEPTH:
                yield from self.text(said, msgspec.structs.replace(place, depth=place.depth + 1), shell)
        elif name in _SHELLS or name in (".", "source") or program.endswith(ENDINGS):
            called = rest if name in (*_SHELLS, ".", "source") else words[at:]
            yield from self.called(called, place, shell, sourced=name in (".", "source"))
        elif (start := _python(words[:at], words[at:], self.given, place.before)) is not None:
            folder = shell.variables.get("PWD", "")
            of_step = options_of(place.before[1:], step=True)[0]
            yield msgspec.structs.replace(
                start, path=place.path, line=place.line or 0, folder=None if UNKNOWN in folder else folder,
                through_srun=bool(place.before), tasks_per_node=_tasks(of_step, self.given) if place.before[:1] == ("srun",) else None,
                outputs=tuple(of_step[name] for name in ("output", "error") if name in of_step),
            )  # fmt: skip

    def called(self, called: tuple[str, ...], place: _Place, shell: Shell, *, sourced: bool) -> Iterator[Start]:
        """Follow another shell script, where it is there, can be read, and has not called this one."""
        names = [word for word in called if not word.startswith("-")]
        if not names or UNKNOWN in names[0] or place.depth >= _DEPTH:
            return
        other = _found(names[0], place.path, shell.variables.get("PWD", ""))
        if other is None or os.path.realpath(other) in place.trail:
            return
        try:
            text = _text(other)
        except InputError:
            return
        trail = (*place.trail, os.path.realpath(other))
        there = _Place(other, before=place.before, trail=trail, depth=place.depth + 1)
        arguments = tuple(called[called.index(names[0]) + 1 :])
        yield from self.text(text, there, shell if sourced else Shell(shell.variables, arguments, other))


def _found(name: str, path: str, folder: str) -> str | None:
    beside = os.path.dirname(path)
    for candidate in (os.path.join(folder if UNKNOWN not in folder else "", name), name, os.path.join(beside, name)):
        if os.path.isfile(candidate):
            return candidate
    return None


def _program(words: Sequence[str]) -> int | None:
    """Where the first word is that starts something; wrappers (``timeout 2h``, ``singularity exec IMAGE``) stand before."""
    for at, word in enumerate(words):
        if not word or (UNKNOWN in word and f"{UNKNOWN}/" not in word):
            continue
        name = _base(word)
        if name in PROGRAMS or name in _SHELLS or re.fullmatch(r"python\d?(\.\d+)?", name):
            return at
        if word.startswith("-"):
            continue
        if word in (".", "source") and at == 0:
            return at
        if word.endswith((*_TRAINING, *ENDINGS)):
            return at
    return None


def _python(
    wrapped: tuple[str, ...], words: tuple[str, ...], given: Resources, before: tuple[str, ...]
) -> Start | None:
    """Read the line of a Python program or of a launcher of such."""
    from preflight.errors import UsageError
    from preflight.source.launcher import parse_launch

    environment = tuple(word for word in wrapped if re.fullmatch(r"[A-Za-z_]\w*=[^\0]*", word))
    cleaned, unknown = _known(words)
    if any(re.fullmatch(r"--nproc[-_]per[-_]node(?:=.*)?", word) for word in unknown):
        # A number that only the job knows (of its GPUs, most likely); without it torchrun would start one process.
        cleaned = (
            *_launcher(cleaned),
            f"--nproc-per-node={given.gpus_per_node or 'gpu'}",
            *cleaned[len(_launcher(cleaned)) :],
        )
    line = (*environment, *_complete(before, given), *cleaned)
    try:
        launch = parse_launch(shlex.join(line))
    except UsageError:
        return None
    if launch.script is None or not launch.script.endswith(_TRAINING):
        return None
    module = "-m" in cleaned and launch.script not in cleaned
    return Start(
        script=launch.script, module=module, arguments=launch.arguments or (), words=line, path="", line=0, unknown=unknown
    )  # fmt: skip


def _launcher(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words that name the launcher: ``torchrun``, ``python -u -m torch.distributed.run``."""
    module = next((at for at, word in enumerate(words[:8]) if word.startswith("torch.distributed.")), 0)
    return words[: module + 1]


def _complete(before: tuple[str, ...], given: Resources) -> tuple[str, ...]:
    """Say in a line of ``srun`` what it takes from the job."""
    if not before or before[0] != "srun":
        return before
    options = options_of(before[1:], step=True)[0]
    nodes = options.get("nodes") or str(given.nodes)
    if "ntasks-per-node" in options:
        return ("srun", f"--nodes={nodes}", f"--ntasks-per-node={options['ntasks-per-node']}")
    if number(options.get("ntasks", "")) is not None:
        return ("srun", f"--nodes={nodes}", f"--ntasks={options['ntasks']}")
    return ("srun", f"--nodes={nodes}", f"--ntasks-per-node={given.tasks_per_node}")


def _tasks(of_step: Mapping[str, str], given: Resources) -> int:
    """How many processes ``srun`` starts on each node."""
    said, total = number(of_step.get("ntasks-per-node", "")), number(of_step.get("ntasks", ""))
    if said is None and total is not None:
        return -(-total // (number(of_step.get("nodes", "")) or given.nodes or 1))
    return given.tasks_per_node if said is None else said


def _known(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Leave out options whose value only the running job knows; returns what stays, and what was left out."""
    kept: list[str] = []
    unknown: list[str] = []
    for word in words:
        if word.endswith(_TRAINING) and not word.startswith("-") and f"{UNKNOWN}/" in word:
            word = word.rpartition(f"{UNKNOWN}/")[2]  # $ROOT/train.py: looked for beside the job
        if UNKNOWN not in word:
            kept.append(word)
            continue
        if not word.startswith("-") and kept and kept[-1].startswith("-") and "=" not in kept[-1]:
            unknown.append(kept.pop())
        else:
            unknown.append(word.replace(UNKNOWN, "..."))
    return tuple(kept), tuple(unknown)


def _without_control(words: tuple[str, ...]) -> tuple[str, ...]:
    while words and words[0] in _CONTROL:
        words = words[1:]
    return words


def _changed(folder: str, words: Sequence[str]) -> str:
    if not words or UNKNOWN in words[0]:
        return UNKNOWN
    return os.path.normpath(os.path.join(folder, words[0]))


def _commands_of(rest: Sequence[str]) -> str | None:
    """The text behind ``bash -c`` (``-lc``, ``-x -c``); None where a file is run, whose own options come later."""
    for place, word in enumerate(rest):
        if not word.startswith("-"):
            return None
        if not word.startswith("--") and word.endswith("c"):
            return rest[place + 1] if place + 1 < len(rest) else None
    return None


def _base(word: str) -> str:
    return word.rpartition("/")[2]
