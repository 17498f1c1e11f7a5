"""What was read from the files of a run: the files, the lines that mean something, the steps, the ends."""

from __future__ import annotations

from typing import Literal

import msgspec

from preflight.vocabulary.finding import Scalar

# What there may be a million of is not shown to the collector of cycles (``gc=False``): it holds none, and it would be gone
# through again and again while it is read.
# Times below count from some start (a boot, the begin of a log), not from 1970.
DATED = 365 * 86_400.0
Place = tuple[int, int]
"""A file and a line of it."""
LogKind = Literal[
    "text",  # what a program printed
    "kernel",  # dmesg or journal
    "scheduler",  # sacct, slurm, kubectl events
    "device",  # nvidia-smi -q, ibstat, DCGM
    "flight",  # Flight Recorder
    "ras",  # NCCL RAS
    "exit",  # error.json of torch elastic
    "stacks",  # py-spy, faulthandler
    "metrics",  # CSV, JSON lines, TensorBoard, trainer_state.json
    "environment",  # collect_env, env, pip freeze
    "program",  # source code, scripts, settings
    "binary",
    "empty",
    "unreadable",
]


class Who(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Who wrote a line or a file, as far as it is known."""

    rank: int | None = None
    node: str | None = None
    local_rank: int | None = None
    attempt: int | None = None
    pid: int | None = None


class LogFile(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One file, or one member of an archive.

    Attributes:
        index: Its number in the reading.
        path: As the person gave it; for a member of an archive ``archive.tar.gz!member``.
        kind: What it is.
        who: Whose file it is by its name or layout; lines may say otherwise.
        layout: How that was told: ``torchrun``, ``srun``, ``pod``, ``lines`` ...
        size: Bytes read, after decompression.
        lines: Number of lines.
        first_time: Time of the first of its lines that tell something and have one, seconds since 1970; None where none has.
        last_time: Time of the last of them; lines of which nothing is kept are not asked for theirs.
        modified: Time at which the file was last written, where the input was a file.
        problem: What is wrong with it (truncated gzip, undecodable, cut off), in words.
        encoding: How its text is written; ``size`` and the offsets in it are those of its text in UTF-8.
        last_text: Its last line that is not empty, cut short.
        excerpt: Its lines, where they are forty at most: where little is told every word may tell. A bar that is drawn anew
            in the same line stands in it again.
        begun_again: The line at which the lines of its head are told again for the last time, behind an exception: another
            start of the same program; None where there is none.
    """

    index: int
    path: str
    kind: LogKind
    who: Who = Who()
    layout: str = ""
    size: int = 0
    lines: int = 0
    first_time: float | None = None
    last_time: float | None = None
    modified: float | None = None
    problem: str | None = None
    encoding: str = "utf-8"
    last_text: str = ""
    excerpt: tuple[str, ...] = ()
    begun_again: int | None = None


class Hit(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A line that a signature took.

    Attributes:
        signature: Its id.
        file: Index of the file.
        line: Number of the line, from 1.
        offset: Byte at which the line begins, after decompression.
        text: The line without its line break, cut after 2,000 characters.
        below: The lines that belong to it.
        fields: What the expression took out of it.
        who: Who printed it: the line's own prefix before the file's.
        about: Whom it is about, where the line says that of somebody else (an agent of its worker).
        time: Seconds since 1970 (or since an unknown start where lines bear no date); None where it is not known.
        time_error: Half of the interval in which the time lies, in seconds.
        time_open: The line tells no time, and neither do those behind it: it may have been written at any time after ``time``.
        times_seen: How often the signature was seen in this file by this rank; only the first and last ones are kept.
    """

    signature: str
    file: int
    line: int
    offset: int
    text: str
    below: tuple[str, ...] = ()
    fields: dict[str, Scalar | tuple[int, ...]] = {}
    who: Who = Who()
    about: Who | None = None
    time: float | None = None
    time_error: float = 0.0
    time_open: bool = False
    times_seen: int = 1

    @property
    def place(self) -> Place:
        """Where it stands."""
        return self.file, self.line


class Frame(msgspec.Struct, frozen=True, omit_defaults=True):
    """A place on a stack.

    Attributes:
        path: The file.
        line: Its line; None where that is not told.
        function: In which function it stands; empty where that is not told.
        code: What stands on that line, where the log prints it.
    """

    path: str
    line: int | None
    function: str
    code: str = ""


class Raised(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A Python traceback in a log.

    Attributes:
        exception: The name of its class, dotted where it was printed so.
        message: What it says, cut after 2,000 characters.
        frames: From the outermost to the innermost.
        hit: Where its last line stands; ``signature`` is that of the message where one took it, else empty.
        chained: It is the cause or the context of the one that follows it.
        begins: The line at which it begins; None where that is not known.
        ignored: Python says above it that it went on, as behind what is raised while an object is deleted or a line is logged.
    """

    exception: str
    message: str
    frames: tuple[Frame, ...]
    hit: Hit
    chained: bool = False
    begins: int | None = None
    ignored: bool = False


class StepLine(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """One step as a log or a metric file tells it.

    Attributes:
        step: Number of the step; None where only time passes.
        values: What was printed, by normalised name: ``loss``, ``grad_norm``, ``lr``, ``seconds`` (of a step), ``loss_scale``,
            ``tokens_per_second``, ``memory_bytes``, ``data_seconds``, ``forward_seconds``, ``backward_seconds``,
            ``communication_seconds``, ``optimizer_seconds``, ``checkpoint_seconds``, ``samples_per_second`` ... and any other
            by the name it had.
    """

    file: int
    line: int
    step: int | None
    values: dict[str, float]
    who: Who = Who()
    time: float | None = None


class Spoke(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Where one process speaks in one file, and where it falls silent; only for files in which several speak.

    ``last_text`` is its last line there, without labels and times, cut short.
    """

    file: int
    who: Who
    lines: int = 0
    first_line: int | None = None
    last_line: int | None = None
    first_time: float | None = None
    last_time: float | None = None
    last_text: str = ""


class Unknown(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Lines that look like trouble and that no signature took, as one template.

    Attributes:
        warning: Their program only warns.
        last: The last of them: of several files that behind which the fewest lines of its file stand.
        behind: So many lines of its file stand behind it; of its start, where several starts in the file were told apart.
    """

    template: str
    count: int
    ranks: tuple[int, ...] = ()
    first: Hit
    warning: bool = False
    last: Place = (0, 0)
    behind: int = 0


class Ending(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How a process ended, as an agent, a scheduler or a shell tells it.

    Attributes:
        about: The process.
        code: Exit code; negative: killed by that signal.
        teller: ``torchrun``, ``slurm``, ``mpi``, ``mpich``, ``error.json``, ``kernel``, ``shell``, ``kubernetes``, ``engine``, ``ray``,
            ``paddle``, ``wandb``, ``compose``, ``wrapper`` (whatever ran the program and prints its code behind its output),
            ``preflight monitor``.
        message: Its last words, where they were kept.
    """

    about: Who
    code: int | None
    teller: str
    time: float | None = None
    time_error: float = 0.0
    message: str | None = None
    file: int | None = None
    line: int | None = None


class Call(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A collective or point-to-point call as a rank's Flight Recorder kept it; sizes in elements.

    Attributes:
        sequence: Its number among the collectives of its group, or among the point-to-point calls.
        group: Name of the group.
        name: What was called, without the library: ``all_reduce``, ``send``.
        state: ``scheduled``, ``started``, ``completed``.
        frames: From the innermost to the outermost.
        source: Sender, by its global rank where the members of the group are known, else by its rank in the group.
        destination: Receiver, likewise.
        operation: Its number among the single operations of the group; several of a coalesced call share a sequence number.
    """

    sequence: int
    group: str
    name: str
    state: str
    peer_to_peer: bool = False
    sizes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    output_sizes: tuple[tuple[int, ...], ...] = ()
    created: float | None = None
    started: float | None = None
    completed: float | None = None
    frames: tuple[Frame, ...] = ()
    source: int | None = None
    destination: int | None = None
    timeout_ms: float | None = None
    operation: int | None = None


class Flight(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a rank's Flight Recorder held, or what its log says of the last calls.

    Attributes:
        who: The rank.
        groups: Members of each process group by name, where the dump tells them.
        calls: The calls kept, in order.
        enqueued: Last sequence number handed in, by group.
        started: Last one begun, by group.
        completed: Last one finished, by group.
        wrapped: Earlier calls are not in it: the ring was full, or only those that had not ended were written.
        backend: The library: ``nccl``, ``gloo``.
        titles: What a group is for, by its name, where the program said so.
    """

    who: Who
    file: int
    groups: dict[str, tuple[int, ...]] = {}
    calls: tuple[Call, ...] = ()
    enqueued: dict[str, int] = {}
    started: dict[str, int] = {}
    completed: dict[str, int] = {}
    wrapped: bool = False
    problem: str | None = None
    backend: str = ""
    titles: dict[str, str] = {}


class Stack(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What one thread of a process was doing, the innermost frame first."""

    who: Who
    file: int | None = None
    thread: str = ""
    main: bool = False
    state: str = ""
    frames: tuple[Frame, ...] = ()


class NodeEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the kernel, a driver, a device or a scheduler tells of a node.

    Attributes:
        kind: ``xid``, ``sxid``, ``fallen-off-the-bus``, ``oom-kill``, ``link-down``, ``link-up``, ``ecc``, ``throttle``, ``pcie``,
            ``disk``, ``soft-lockup``, ``remap``, ``job-state``, ``pod-state`` ...
        code: The number it bears (an Xid, an exit code).
        device: PCI address, or name of the port or disk, as written, lower case and padded (``0000:3b:00.0``).
        fatal: Whether the device or the job does not survive it.
        meaning: What it stands for, in one line.
        values: Numbers and words read out of it.
    """

    kind: str
    hit: Hit
    node: str | None = None
    code: int | None = None
    device: str | None = None
    pid: int | None = None
    fatal: bool = False
    meaning: str = ""
    values: dict[str, Scalar] = {}


class Environment(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a process or a node ran with: versions, variables, devices.

    Attributes:
        who: The process or the node.
        file: Index of the file.
        source: Who told it: ``collect_env``, ``env``, ``pip``, ``nvidia-smi``, ``nccl``, ``topology`` ...
        values: By dotted name: ``torch``, ``cuda``, ``driver``, ``nccl``, ``env.NCCL_DEBUG``, ``package.numpy``, ``gpu.0.name`` ...
    """

    who: Who = Who()
    file: int | None = None
    source: str = ""
    values: dict[str, str] = {}


class Reading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that was read, of all files; times are those of the writers' clocks, uncorrected."""

    files: tuple[LogFile, ...] = ()
    hits: tuple[Hit, ...] = ()
    raised: tuple[Raised, ...] = ()
    steps: tuple[StepLine, ...] = ()
    endings: tuple[Ending, ...] = ()
    flights: tuple[Flight, ...] = ()
    stacks: tuple[Stack, ...] = ()
    events: tuple[NodeEvent, ...] = ()
    environments: tuple[Environment, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    spoke: tuple[Spoke, ...] = ()
    world_size: int | None = None
    bytes_read: int = 0
    lines_read: int = 0
    notes: tuple[str, ...] = ()
