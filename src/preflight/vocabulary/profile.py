"""Words of a dry run: what was seen when a script ran on a virtual GPU."""

from __future__ import annotations

from typing import Literal

import msgspec

from preflight.vocabulary.held import Full, Growth, Holder, Instant, Moment
from preflight.vocabulary.probe import Probe
from preflight.vocabulary.seen import (
    InputSeen,
    LoaderSeen,
    ModuleSeen,
    Observation,
    OptimizerSeen,
    ParameterSeen,
    PrecisionSeen,
)
from preflight.vocabulary.work import Work

Outcome = Literal[
    "ended",
    "stopped",
    "exited",
    "failed",
    "no data",
    "time is up",
    "memory is up",
    "no torch",
    "torch too old",
    "python too old",
]


class Sync(msgspec.Struct, frozen=True):
    """The host waits for the GPU."""

    kind: str
    line: str
    phase: str
    step: int
    count: int


class Busy(msgspec.Struct, frozen=True):
    """Operators with a graph that a line of the script, or what it calls, ran in one step."""

    line: str
    step: int
    operators: int


class Cut(msgspec.Struct, frozen=True):
    """A loop that was ended early: rounds that were run, of how many."""

    line: str
    rounds: int
    length: int | None = None


class Frame(msgspec.Struct, frozen=True):
    """A frame of the person's own code in a traceback."""

    file: str
    line: int | None
    function: str
    text: str


class Changed(msgspec.Struct, frozen=True):
    """A change that was made to the run from outside: what was done and how often, and why something could not be done."""

    name: str
    done: dict[str, int] = {}
    refused: tuple[str, ...] = ()


class Call(msgspec.Struct, frozen=True, array_like=True):
    """A collective: its operator, bytes, ``file:line``, step and phase, and the place of its group among all groups."""

    operator: str
    bytes: int
    line: str
    step: int
    phase: str
    group: int


class RankSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One of the processes that were run: how it ended, and its memory."""

    rank: int
    outcome: Outcome
    steps: int
    peak_bytes: int
    reserved_bytes: int
    full: bool = False
    error: str | None = None


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """Two ranks that take part in the same groups call different collectives: each waits for the other for ever.

    Attributes:
        ranks: The two.
        group: The ranks of the group in which they differ.
        position: How many of the group's collectives they have in common before.
        calls: What each of them calls next; None for one that calls nothing any more.
    """

    ranks: tuple[int, int]
    group: tuple[int, ...]
    position: int
    calls: tuple[Call | None, Call | None]


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """What a dry run saw.

    Attributes:
        outcome: How it ended. ``stopped``: enough steps were done; ``failed``: the script raised.
        steps: Optimizer steps.
        operators: Operators on the GPU.
        peak_bytes: The highest number of bytes in blocks. reserved_bytes: The same of segments.
        compiled_bytes: The highest number of bytes where what the script compiles writes no results of fused operators;
            0 where it compiles nothing.
        categories: Bytes at the peak by what they are for.
        course: How full the GPU was over the run, in pieces of about as many allocations each.
        rank: Which process was run. world: How many there are. others: Ranks that differ by what the script says.
        communicators: Groups for which the communication library holds memory on this GPU.
        groups: The ranks of each group. calls: The collectives, in order.
        ranks: The processes that were run; the memory is that of the most loaded one. loaded: Which that is.
        divergences: Where ranks call different collectives.
        messages: What stages of a pipeline sent of shapes, by stage.
        growth: Memory that grows from step to step.
        saves: Paths of the checkpoints that the script wrote.
        refused: What the guard refused, with how often.
        missing: Names that this PyTorch lacks. python: The version of Python, where it is too old.
        assumptions: What stood in for something that was missing: packages, data, pretrained configurations.
        lines: The lines that ran most operators.
        observations: What was watched for and happened, in order.
        modules: The modules of the networks. parameters: Their parameters. made: The optimizers. loaders: The data loaders.
        precision: The types in which products and losses of training forwards were computed.
        reached: File to the first lines of its blocks that ran.
        inputs: What models were given when they first learned from a batch.
        changed: What the changes that the job asked for did.
        probe: What a second run with real numbers saw.
        status: With which status the script left. stuck: ``file:line`` of a script that did not end when it was told to,
            or whose loader gives nothing.
        closed: What the kernel kept the script from: ``network``, ``files``.
        error: Class of the exception. message: Its text. frames: Its frames in the person's own code.
        hint: What is known to help against it: what to install, which release removed a name.
    """

    outcome: Outcome
    torch: str = ""
    seconds: float = 0.0
    steps: int = 0
    backwards: int = 0
    operators: int = 0
    peak_bytes: int = 0
    compiled_bytes: int = 0
    peak_phase: str = "init"
    peak_step: int = 0
    reserved_bytes: int = 0
    categories: dict[str, int] = {}
    holders: tuple[Holder, ...] = ()
    timeline: tuple[Moment, ...] = ()
    course: tuple[Instant, ...] = ()
    full: Full | None = None
    growth: tuple[Growth, ...] = ()
    rank: int = 0
    world: int | None = None
    others: tuple[int, ...] = ()
    communicators: int = 0
    groups: tuple[tuple[int, ...], ...] = ()
    calls: tuple[Call, ...] = ()
    ranks: tuple[RankSeen, ...] = ()
    loaded: int = 0
    divergences: tuple[Divergence, ...] = ()
    messages: dict[str, str] = {}
    syncs: tuple[Sync, ...] = ()
    lines: tuple[Busy, ...] = ()
    cut: tuple[Cut, ...] = ()
    optimizers: tuple[str, ...] = ()
    work: Work = Work()
    saves: tuple[str, ...] = ()
    refused: dict[str, int] = {}
    missing: tuple[str, ...] = ()
    python: str = ""
    assumptions: tuple[str, ...] = ()
    observations: tuple[Observation, ...] = ()
    modules: tuple[ModuleSeen, ...] = ()
    parameters: tuple[ParameterSeen, ...] = ()
    made: tuple[OptimizerSeen, ...] = ()
    loaders: tuple[LoaderSeen, ...] = ()
    precision: tuple[PrecisionSeen, ...] = ()
    reached: dict[str, tuple[int, ...]] = {}
    inputs: tuple[InputSeen, ...] = ()
    changed: tuple[Changed, ...] = ()
    probe: Probe | None = None
    status: str = ""
    stuck: str = ""
    closed: tuple[str, ...] = ()
    error: str | None = None
    message: str | None = None
    frames: tuple[Frame, ...] = ()
    deepest: tuple[str, ...] = ()
    hint: str | None = None
