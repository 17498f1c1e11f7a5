"""Reads out of a line how a process ended, as an agent, a scheduler, a shell or a launcher tells it of another."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from preflight.source.logs import signal_words, wrappers, zsh
from preflight.source.logs.times import stamp_at
from preflight.vocabulary.log import Who

LITERALS = (
    b"(exitcode:",
    b"(first observed failure)",
    b"Failures:",
    b"Exited with exit code",
    b"srun: error:",
    b"srun.slurm: error:",
    b"slurmstepd: error",
    b"exits with return code",
    b"(core dumped)",
    b": Killed",
    b"died with <Signals.",
    b"returned non-zero exit status",
    b"exited on signal",
    b"exit with status code",
    b"terminated with signal",
    b"terminated with exit code",
    b"terminated with the following error",
    b"exit code ",
    b"Exit Code:",
    b"exitCode",
    b"exited with code",
    b"Exit code:",
    b"Process name:",
    b" RUNNING AT ",
    b" died from signal ",
    b"noticed that process rank",
    b"APPLICATION TERMINATED WITH",
    b"torchelastic.worker.status.FAILED",
    b"died unexpectedly",
    b" died, exit code",
    b"scheduler is dead",
    b"Worker PID: ",
    b"trainer process with rank=",
    b" status failed cmd ",
    b"hild process with PID ",
    b"Process ",
    b"Aborted",
    b"Bus error",
    b"Illegal instruction",
    b"Floating point exception",
    b" Terminated  ",
    b" Hangup  ",
    *wrappers.LITERALS,
    *signal_words.LITERALS,
    *zsh.LITERALS,
)
"""A line that tells of an end holds one of these."""

_SIGNALS = {
    "HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "BUS": 7, "FPE": 8, "KILL": 9, "USR1": 10, "SEGV": 11,
    "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15, "XCPU": 24, "XFSZ": 25,
}  # fmt: skip
_WORDS = {
    "killed": 9, "segmentation fault": 11, "aborted": 6, "bus error": 7, "terminated": 15, "illegal instruction": 4,
    "floating point exception": 8, "hangup": 1, "interrupt": 2, "quit": 3, "trace/breakpoint trap": 5, "user defined signal 1": 10,
    "user defined signal 2": 12, "broken pipe": 13, "alarm clock": 14, "cpu time limit exceeded": 24,
    "file size limit exceeded": 25, "bad system call": 31,
}  # fmt: skip
"""What glibc's ``strsignal`` calls a signal, which shells and srun print."""
_OF_A_SIGNAL = 128
"""A shell tells a signal as 128 and its number."""


class End(NamedTuple):
    """How processes ended: one ``Who`` each."""

    about: tuple[Who, ...]
    code: int | None
    teller: str
    message: str | None = None
    time: float | None = None


def signal_number(name: str) -> int | None:
    """Return the number of a signal by its name (``SIGKILL``), its word (``Killed``) or its digits."""
    text = name.strip().lower()
    if text.isdigit():
        return int(text)
    return _WORDS.get(text) or _SIGNALS.get(text.upper().removeprefix("SIG"))


def as_code(status: int) -> int:
    """Return an exit status as Python tells it: negative for a signal, which a shell tells as 128 and more."""
    return _OF_A_SIGNAL - status if _OF_A_SIGNAL < status <= _OF_A_SIGNAL + 64 else status


def _agent(match: re.Match[str]) -> End:
    # "failed (exitcode: -9) local_rank: 2 (pid: 1234) of binary: /usr/bin/python"
    who = Who(local_rank=int(match["local"]) if match["local"] else None, pid=int(match["pid"]))
    return End((who,), int(match["code"]), "torchrun")


def _deepspeed(match: re.Match[str]) -> End:
    return End((Who(pid=int(match["pid"])),), as_code(int(match["code"])), "deepspeed")


def _deepspeed_command(match: re.Match[str]) -> End:
    # Its launcher prints the command of the last process that it started, whichever ended; 0 is the only one of its node.
    found = _LOCAL.search(match.string, 0, match.start())
    only = found is not None and int(found[1]) == 0
    return End((Who(local_rank=0) if only else Who(),), as_code(int(match["code"])), "deepspeed")


def _composer(match: re.Match[str]) -> End:
    who = Who(int(match["rank"]), pid=int(match["pid"]) if match["pid"] else None)
    return End((who,), as_code(int(match["code"])), "composer")


def _srun(match: re.Match[str]) -> End:
    node = match["node"]
    tasks = _numbers(match["tasks"])
    if match["code"]:
        code: int | None = as_code(int(match["code"]))
    else:
        # What Slurm tells as out of memory was killed by the kernel.
        number = signal_number(match["word"]) if match["word"] else 9
        code = -number if number else None
    nodes = node if node and not re.search(r"[\[,]", node) else None
    return End(tuple(Who(task, nodes) for task in tasks), code, "slurm")


def _shell(match: re.Match[str]) -> End:
    number = signal_number(match["word"])
    return End((Who(pid=int(match["pid"]) if match["pid"] else None),), -number if number else None, "shell")


def _python(match: re.Match[str]) -> End:
    number = signal_number(match["signal"])
    return End((Who(),), -number if number else None, "shell")


def _status(match: re.Match[str]) -> End:
    return End((Who(),), as_code(int(match["code"])), "shell")


def _mpi(match: re.Match[str]) -> End:
    number = signal_number(match["signal"])
    who = Who(int(match["rank"]), match["node"], pid=int(match["pid"]) if match["pid"] else None)
    return End((who,), -number if number else None, "mpi")


def _pals(match: re.Match[str]) -> End:
    # It tells of those that it stops in the same words as of the first.
    return End((Who(int(match["rank"]), match["node"]),), -int(match["signal"]), "mpich")


def _horovod(match: re.Match[str]) -> End:
    return End((Who(int(match["rank"])),), as_code(int(match["code"])), "horovod")


def _spawned(match: re.Match[str]) -> End:
    if match["signal"]:
        number = signal_number(match["signal"])
        code = -number if number else None
    else:
        code = as_code(int(match["code"])) if match["code"] else 1
    return End((Who(local_rank=int(match["local"])),), code, "spawn")


def _engine(match: re.Match[str]) -> End:
    # An engine for inference looks after its workers, and ends the others once one is gone.
    told = match.groupdict()
    code = as_code(int(told["code"])) if told["code"] else None
    rank = int(told["rank"]) if told["rank"] else None
    return End((Who(rank, pid=int(told["pid"]) if told["pid"] else None),), code, "engine")


def _ray(match: re.Match[str]) -> End | None:
    # A worker that ended as its program meant it to has another type of end.
    if not _RAY_ERROR.search(match.string, match.end()):
        return None
    signal = _RAY_CODE.search(match.string, match.end())
    return End((Who(pid=int(match["pid"])),), as_code(int(signal[1])) if signal else None, "ray")


def _elastic_event(match: re.Match[str]) -> End | None:
    rank = _GLOBAL_RANK.search(match.string, match.end())
    if rank is None or '"state": "FAILED"' not in match.string[rank.end() :]:
        return None
    return End((Who(int(rank[1])),), 1, "elastic")


def _lightning(match: re.Match[str]) -> End:
    return End((Who(pid=int(match["pid"])),), as_code(int(match["code"])), "lightning")


def _paddle(match: re.Match[str]) -> End:
    # Its older launcher does not tell how the trainers ended that it names.
    told = match.groupdict()
    code = as_code(int(told["code"])) if told.get("code") else None
    return End(tuple(Who(rank) for rank in _numbers(match["ranks"])), code, "paddle")


def _compose(match: re.Match[str]) -> End:
    return End((Who(node=match["name"]),), as_code(int(match["code"])), "compose")


def _called(match: re.Match[str]) -> End:
    # Whose rank bears that name, the names of the others tell: ``named_processes``.
    told = match.groupdict()
    pid = int(told["pid"]) if told.get("pid") else None
    return End((Who(node=match["name"], pid=pid),), as_code(int(told.get("code") or 1)), "process")


def _container(match: re.Match[str]) -> End:
    return End((Who(),), as_code(int(match["code"])), "kubernetes")


_RAY_ERROR = re.compile(r"Worker exit type: (?:SYSTEM_ERROR|NODE_OUT_OF_MEMORY|USER_ERROR)")
_RAY_CODE = re.compile(r"\bExit code: (\d{1,3})\b")
_LOCAL = re.compile(r"'--local_rank=(\d{1,7})'")
_GLOBAL_RANK = re.compile(r'"global_rank": (\d{1,7})\b')
_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], End | None]], ...] = (
    (
        re.compile(
            r"\(exitcode: (?P<code>-?\d+)\)(?:(?: .{1,200}?)? local_rank: (?P<local>\d{1,10}))? \((?:pid|process ID): (?P<pid>\d{1,10})\)"
        ),
        _agent,
    ),
    (re.compile(r"Process (?P<pid>\d{1,10}) exits with return code = (?P<code>-?\d+)"), _deepspeed),
    (re.compile(r"\] exits with return code = (?P<code>-?\d+)"), _deepspeed_command),
    (
        re.compile(
            r"\b[Rr]ank (?P<rank>\d{1,10})(?: \(PID (?P<pid>\d{1,10})\))? (?:crashed with exit code|exited with(?: exit)? code) (?P<code>-?\d+)"
        ),
        _composer,
    ),
    (
        re.compile(
            r"srun(?:\.slurm)?: error: (?P<node>[\w.,\[\]-]+): tasks? (?P<tasks>[\d,\s-]+): (?:Exited with exit code (?P<code>\d{1,10})"
            r"|(?P<word>Killed|Segmentation fault|Aborted|Bus error|Terminated|Illegal instruction|Floating point exception|Hangup"
            r"|Interrupt|Quit|Trace/breakpoint trap|User defined signal [12]|Broken pipe|Alarm clock|CPU time limit exceeded"
            r"|File size limit exceeded|Bad system call)"
            r"|Out Of Memory)"
        ),
        _srun,
    ),
    (
        re.compile(
            r"(?::|^)\s{0,20}(?:line \d+:)?\s{0,20}(?P<pid>\d{1,10})?\s{0,20}(?P<word>Killed|Segmentation fault|Aborted|Bus error|Illegal instruction|"
            r"Floating point exception|Terminated|Hangup)\s*(?:\(core dumped\)|(?= {2,}\S))"
        ),
        _shell,
    ),
    # A shell prints the word alone where no memory was written down.
    (re.compile(r"^(?P<word>Aborted|Bus error|Illegal instruction|Floating point exception)(?P<pid>)\s*$"), _shell),
    (re.compile(r"died with <Signals\.(?P<signal>SIG\w+): \d+>"), _python),
    (re.compile(r"Process finished with exit code (?P<code>-?\d{1,10})\b"), _status),
    (re.compile(r"returned non-zero exit status (?P<code>\d{1,10})"), _status),
    (re.compile(r"\bProcess (?P<rank>\d{1,10}) exit with status code (?P<code>-?\d{1,10})"), _horovod),
    (
        re.compile(
            r"process rank (?P<rank>\d{1,10}) with PID (?:(?P<pid>\d{1,10})|\w+) on node (?P<node>[\w.-]+) exited on signal (?P<signal>\d{1,10})"
        ),
        _mpi,
    ),
    (re.compile(r"^(?P<node>[\w.-]+): rank (?P<rank>\d{1,10}) died from signal (?P<signal>\d{1,3})\b"), _pals),
    (
        re.compile(
            r"[Pp]rocess (?P<local>\d{1,10}) terminated with (?:signal (?P<signal>SIG\w+)|exit code (?P<code>\d{1,10})|the following error)"
        ),
        _spawned,
    ),
    (
        re.compile(
            r"\bWorker (?:proc )?\w{1,40}?(?:-(?P<rank>\d{1,7})| pid (?P<pid>\d{1,10})) died(?: unexpectedly|(?=, exit))"
            r"(?:,? \(?exit code: (?:(?P<code>-?\d{1,3})|None)\)?)?"
        ),
        _engine,
    ),
    (re.compile(r"\bRank (?P<rank>\d{1,7}) scheduler is dead\b(?P<pid>)(?P<code>)"), _engine),
    (re.compile(r"\bWorker PID: (?P<pid>\d{1,10})\b"), _ray),
    (
        re.compile(r"\b[Cc]hild process with PID (?P<pid>\d{1,10}) terminated with code (?P<code>-?\d{1,10})"),
        _lightning,
    ),
    (re.compile(r"trainer process with rank=\[(?P<ranks>[\d, ]{1,200})\] was aborted"), _paddle),
    (
        re.compile(r"\bContainer rank (?P<ranks>\d{1,7}) status failed cmd .{0,4000} code (?P<code>-?\d{1,10}) log "),
        _paddle,
    ),
    (re.compile(r"^(?P<name>[A-Za-z][\w.-]{0,60}[-_]\d{1,7}) exited with code (?P<code>\d{1,3})\s*$"), _compose),
    # What multiprocessing prints above the traceback of a process, and what a program says of one that it started.
    (re.compile(r"^Process (?P<name>[A-Za-z][\w.-]{0,60}?\d{1,5}):\s*$"), _called),
    (
        re.compile(
            r"(?<![\w.-])(?P<name>[A-Za-z][\w.-]{0,60}?\d{1,5}) \((?i:pid)[ :=]{0,2}(?P<pid>\d{1,10})\)"
            r" (?:has )?(?:(?:ended|exited|died|terminated|crashed|failed)(?: unexpectedly)?,? with exit|exited with) code (?P<code>-?\d{1,10})\b"
        ),
        _called,
    ),
    (re.compile(r'"source": "WORKER"'), _elastic_event),
    (re.compile(r"(?:Exit Code:\s+|\"?exitCode\"?:\s*)(?P<code>\d{1,10})"), _container),
)


_MOST_TASKS = 65_536


def ends(text: str) -> End | None:
    """Return what a line tells of an end, or None."""
    for pattern, read in _FORMS:
        match = pattern.search(text)
        end = read(match) if match else None
        if end is not None:
            return end
    return _of_wrapper(text) or _of_shell_elsewhere(text)


def _of_shell_elsewhere(text: str) -> End | None:
    """Read what a shell tells in another language than English, or zsh in words of its own."""
    found = signal_words.told(text) or zsh.told(text)
    return End((Who(pid=found[0]),), -found[1], "shell") if found is not None else None


def _of_wrapper(text: str) -> End | None:
    told = wrappers.told(text)
    if told is None:
        return None
    status, name, number = told
    number = signal_number(name) if name is not None else number
    code = as_code(status) if status is not None else -number if number else None
    return End((Who(),), code, wrappers.WRAPPER) if code is not None else None


_NAME_OF_PROCESS = re.compile(r"Process name: (?:\[\[\d+,\d+\],)?(?P<rank>\d{1,10})\]?\s*$")
_CODE_OF_PROCESS = re.compile(r"Exit code:\s+(?P<code>-?\d{1,10})\s*$")


def of_two_lines(text: str, below: Iterable[str]) -> End | None:
    """Read what mpirun and horovod tell on two lines, in either order: the name of the first process to end, and its code."""
    lines = [text, *below][:2]
    name = next((match for match in map(_NAME_OF_PROCESS.search, lines) if match), None)
    code = next((match for match in map(_CODE_OF_PROCESS.search, lines) if match), None)
    return End((Who(int(name["rank"])),), as_code(int(code["code"])), "mpi") if name and code else None


_BOX_OF_HYDRA = re.compile(r"^=\s+(?:RANK (?P<rank>\d{1,10}) )?PID (?P<pid>\d{1,10}) RUNNING AT (?P<node>[\w.-]+)\s*$")
_END_IN_BOX = re.compile(
    r"^=\s+(?:KILLED BY SIGNAL: (?P<signal>\d{1,3})\b|EXIT (?:CODE|STATUS): (?P<code>\d{1,10})\s*$)"
)


def of_hydra(text: str, below: Iterable[str]) -> End | None:
    """Read the box in which Hydra, the launcher of MPICH and Intel MPI, tells of a process: who it was, and below that how it ended."""
    name = _BOX_OF_HYDRA.match(text)
    end = next((match for match in map(_END_IN_BOX.match, below) if match), None)
    if name is None or end is None:
        return None
    code = -int(end["signal"]) if end["signal"] else as_code(int(end["code"]))
    return End((Who(int(name["rank"]) if name["rank"] else None, name["node"], pid=int(name["pid"])),), code, "mpich")


_ACTOR_DIED = "The actor died unexpectedly before finishing this task"
_NAME_OF_ACTOR = re.compile(r"^\W*name: [A-Za-z]\w*?[_-](\d{1,5})\s*$")
"""Whoever names actors one by one names them by their rank."""
_PID_OF_ACTOR = re.compile(r"^\W*pid: (\d{1,10})\s*$")
ACTOR_LINES = 6
"""Ray tells class, id, process, name, namespace and address of an actor that died, each on a line of its own."""


def of_actor(text: str, below: Iterable[str]) -> End | None:
    """Read which actor of Ray died, from the line that says so and those below it."""
    if _ACTOR_DIED not in text:
        return None
    lines = list(below)
    pid = next((match for match in map(_PID_OF_ACTOR.match, lines) if match), None)
    name = next((match for match in map(_NAME_OF_ACTOR.match, lines) if match), None)
    return End((Who(int(name[1]) if name else None, pid=int(pid[1])),), None, "ray") if pid else None


def _numbers(text: str) -> list[int]:
    found: list[int] = []
    for part in text.replace(" ", "").split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and max(len(first), len(last)) < 10:
            end = int(last if last.isdecimal() else first) + 1
            found.extend(range(int(first), min(end, int(first) + _MOST_TASKS)))
        if len(found) >= _MOST_TASKS:
            break
    return found[:_MOST_TASKS]


_KEY = re.compile(r"^\s*(time|host|rank|exitcode|error_file|traceback|msg)\s*: ?(.*)$")
_ENTRY = re.compile(r"^\s*(?:\[(\d+)\]:|<NO_OTHER_FAILURES>)\s*$")
_RANK = re.compile(r"(\d{1,10}) \((?:local_rank: (\d{1,10})\))?")
_CODE = re.compile(r"(-?\d{1,10}) \((?:pid: (\d{1,10})\))?")
"""Where a text ends within a number, as excerpts do, what stands before it is whole."""


def before_root(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of the table that stand before its root cause, which is read by itself."""
    for line in lines:
        if "Root Cause" in line:
            return
        yield line


def table(lines: Sequence[str]) -> list[End]:
    """Read the table of failures that torchrun prints at its end, from the line with its title on."""
    found: list[End] = []
    entry: dict[str, str] = {}
    for line in lines:
        if _ENTRY.match(line) or line.lstrip().startswith(("===", "---", "Root Cause", "Other Failures")):
            _close(entry, found)
            entry = {}
            if line.lstrip().startswith("===") and found:
                break
            continue
        key = _KEY.match(line)
        if key:
            if key[1] in entry and key[1] == "time":
                _close(entry, found)
                entry = {}
            entry[key[1]] = key[2].strip()
        elif entry.get("traceback") and line.strip() and len(entry["traceback"]) < 2000:
            entry["traceback"] += "\n" + line.strip()
    _close(entry, found)
    return found


def _close(entry: dict[str, str], found: list[End]) -> None:
    rank = _RANK.match(entry.get("rank", ""))
    code = _CODE.match(entry.get("exitcode", ""))
    if not rank and not code:
        return
    who = Who(
        int(rank[1]) if rank else None,
        entry.get("host") or None,
        int(rank[2]) if rank and rank[2] else None,
        None,
        int(code[2]) if code and code[2] else None,
    )
    told = entry.get("traceback", "")
    if told.startswith("To enable traceback"):  # how to get one says nothing
        told = f"exitcode: {entry['exitcode']}" if code else ""
    stamp = stamp_at(entry.get("time", "").replace("_", " "))
    time = stamp.seconds if stamp and not stamp.missing else None
    found.append(End((who,), int(code[1]) if code else None, "torchrun", told or None, time))
