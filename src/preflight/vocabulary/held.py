"""Memory over a dry run: moments, instants, who held what, the request that did not fit, what grows from step to step."""

from __future__ import annotations

from typing import Literal

import msgspec


class Holder(msgspec.Struct, frozen=True):
    """Who holds memory at the peak.

    Attributes:
        category: ``parameter``, ``gradient``, ``optimizer state``, ``activation``, ``temporary``, ``buffer``, ``input``.
        module: Path of the module, or of the parameter; ``*`` stands for the numbers of repeated blocks.
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


class Instant(msgspec.Struct, frozen=True):
    """The highest point of a short piece of the run: what the bytes handed out are for, and how many the allocator holds."""

    step: int
    phase: str
    reserved: int
    owners: dict[str, int]


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


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """Memory that grows from step to step of a training, or from round to round of a loop that evaluates.

    Attributes:
        phase: Where it grows.
        bytes: What a step or round leaves. steady: Whether each left as much.
        seen: Steps or rounds that were run.
        length: Of how many; None where that is not known.
        bounded: Whether who keeps it empties it on the way, or can hold only so much.
        allocated: Bytes in blocks at the highest point of the last step. reserved: The same of segments.
        loop: ``file:line`` of the loop.
        holders: What is left, by the line that made it.
        keeper: Who keeps it, as the script calls it; empty where that was not found. kind: What that is, such as ``list``.
        kept_at: The lines that add to it. emptied_at: Lines that empty it.
    """

    phase: Literal["training", "evaluation"]
    bytes: int
    steady: bool
    seen: int
    length: int | None = None
    bounded: bool = False
    allocated: int = 0
    reserved: int = 0
    loop: str = ""
    holders: tuple[Holder, ...] = ()
    keeper: str = ""
    kind: str = ""
    kept_at: tuple[str, ...] = ()
    emptied_at: tuple[str, ...] = ()
