"""Words of a dry run: what was seen when a script ran on a virtual GPU."""

from __future__ import annotations

from typing import Literal

import msgspec

Outcome = Literal["ended", "stopped", "exited", "failed", "time is up", "no torch", "torch too old"]


class Holder(msgspec.Struct, frozen=True):
    """Who holds memory at the peak.

    Attributes:
        category: ``parameter``, ``gradient``, ``optimizer state``, ``activation``, ``temporary``, ``buffer``, ``input``.
        module: Path of the module, or of the parameter.
        line: ``file:line`` of the script.
        bytes: Bytes of its blocks.
    """

    category: str
    module: str
    line: str
    bytes: int


class Moment(msgspec.Struct, frozen=True):
    """The highest point of a phase of a step: bytes handed out, and held from the device."""

    step: int
    phase: str
    allocated: int
    reserved: int


class Full(msgspec.Struct, frozen=True):
    """The first request for which the GPU had no room, bytes."""

    phase: str
    step: int
    module: str
    line: str
    operator: str
    requested: int
    allocated: int
    reserved: int


class Sync(msgspec.Struct, frozen=True):
    """The host waits for the GPU."""

    kind: str
    line: str
    phase: str
    step: int
    count: int


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


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """What a dry run saw.

    Attributes:
        outcome: How it ended. ``stopped``: enough steps were done; ``failed``: the script raised.
        steps: Optimizer steps.
        operators: Operators on the GPU.
        peak_bytes: The highest number of bytes in blocks. reserved_bytes: The same of segments.
        categories: Bytes at the peak by what they are for.
        saves: Paths of the checkpoints that the script wrote.
        refused: What the guard refused, with how often.
        assumptions: What stood in for something that was missing: packages, data, pretrained configurations.
        error: Class of the exception. message: Its text. frames: Its frames in the person's own code.
    """

    outcome: Outcome
    torch: str = ""
    seconds: float = 0.0
    steps: int = 0
    backwards: int = 0
    operators: int = 0
    peak_bytes: int = 0
    peak_phase: str = "init"
    peak_step: int = 0
    reserved_bytes: int = 0
    categories: dict[str, int] = {}
    holders: tuple[Holder, ...] = ()
    timeline: tuple[Moment, ...] = ()
    full: Full | None = None
    syncs: tuple[Sync, ...] = ()
    cut: tuple[Cut, ...] = ()
    optimizers: tuple[str, ...] = ()
    saves: tuple[str, ...] = ()
    refused: dict[str, int] = {}
    missing: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    error: str | None = None
    message: str | None = None
    frames: tuple[Frame, ...] = ()
    deepest: tuple[str, ...] = ()
