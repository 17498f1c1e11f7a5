"""What one dump gives to a reading."""

from __future__ import annotations

import msgspec

from preflight.vocabulary.log import (
    Ending,
    Environment,
    Flight,
    Hit,
    LogKind,
    NodeEvent,
    Raised,
    Stack,
    StepLine,
    Who,
)


class Part(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What was read from one file; each field goes to the field of the same name of ``Reading``.

    Attributes:
        kind: What the file turned out to be, where it is more exact than the format's own kind.
        who: Whose file it is, where its content tells more than its name did.
        lines: Number of lines, for text.
        first_time: Earliest time in it, seconds since 1970.
        last_time: Latest time in it.
        world_size: Number of ranks, where the file tells it.
        problem: What is wrong with the file, in words; what could be read is there all the same.
        notes: What else has to be said.
    """

    kind: LogKind | None = None
    who: Who | None = None
    lines: int = 0
    first_time: float | None = None
    last_time: float | None = None
    world_size: int | None = None
    problem: str | None = None
    notes: tuple[str, ...] = ()
    hits: tuple[Hit, ...] = ()
    raised: tuple[Raised, ...] = ()
    steps: tuple[StepLine, ...] = ()
    endings: tuple[Ending, ...] = ()
    flights: tuple[Flight, ...] = ()
    stacks: tuple[Stack, ...] = ()
    events: tuple[NodeEvent, ...] = ()
    environments: tuple[Environment, ...] = ()
