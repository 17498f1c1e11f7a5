"""What one file gives to a reading, before the files are put together."""

from __future__ import annotations

import msgspec

from preflight.vocabulary.log import (
    Ending,
    Environment,
    Flight,
    Hit,
    LogFile,
    NodeEvent,
    Raised,
    Spoke,
    Stack,
    StepLine,
    Unknown,
    Who,
)

ROWS = ("hits", "raised", "steps", "endings", "flights", "stacks", "events", "environments", "spoke")
"""The lists of a part whose rows say where they stand, and whose they are."""


class Process(msgspec.Struct, frozen=True, omit_defaults=True):
    """Two names of the same process, as a line tells them: its rank and its number on its machine.

    Attributes:
        who: Both.
        among: Of how many the rank is one, where the line tells it: of a group of some ranks, it is none of the run.
    """

    who: Who
    among: int | None = None


class Reduced(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What was read from one file; ``file.index`` and every ``file`` below are that of the source until they are joined."""

    file: LogFile
    job: str = ""
    hits: list[Hit] = []
    raised: list[Raised] = []
    steps: list[StepLine] = []
    endings: list[Ending] = []
    flights: list[Flight] = []
    stacks: list[Stack] = []
    events: list[NodeEvent] = []
    environments: list[Environment] = []
    spoke: list[Spoke] = []
    owner: Who | None = None
    unknown: list[Unknown] = []
    processes: list[Process] = []
    world_sizes: dict[int, int] = {}
    undated: bool = False
    year_guessed: bool = False
    notes: list[str] = []
