"""Words for a recorded run: what was run, what was recorded of it, and what is missing."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

RUN_SCHEMA = "preflight.trace/1"
"""The schema of ``run.json``; the number is that of the format."""


class ThinnedPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of what is recorded that was recorded more seldom, to keep the budget.

    Attributes:
        what: The part: ``detail``, ``norms``, ``repeated passes``.
        every: Each how many iterations it was recorded then; 0 where no more. Of repeated passes, how many of one place
            were recorded; 0 where all.
        rank: In which rank; None where in all.
        since: The first iteration.
        share: The share of the time that it had taken, from 0 to 1; None where that was not measured.
        reason: Why.
    """

    what: str
    every: int
    rank: int | None = None
    since: int | None = None
    share: float | None = None
    reason: str | None = None


class ProcessEnd(msgspec.Struct, frozen=True, kw_only=True):
    """A process of the run, as its launcher saw it end.

    Attributes:
        pid: Its number. rank: Its rank, where it has one.
        exit_code: Its exit code; None where it is not known. signal: The signal that ended it.
    """

    pid: int
    rank: int | None = None
    exit_code: int | None = None
    signal: int | None = None


class RecordedRun(msgspec.Struct, frozen=True, kw_only=True):
    """What ``run.json`` of a trace folder says of the run.

    Attributes:
        schema: The schema, with its number.
        program: What was started: ``train.py``, ``-m package.train``.
        arguments: The whole command line, as it was given.
        directory: The folder that it was started in.
        versions: Versions by name: ``preflight``, ``python``, ``torch``.
        world_size: How many ranks the run has; None where nobody knows.
        budget: The share of the run's time that recording may take, in per cent; None where it was not limited.
        recorded: What was recorded, by its name, with its settings.
        thinned: What was recorded more seldom than asked for.
        exit_code: The exit code of the program; None while it runs, or where it is not known.
        processes: The processes that the launcher knows.
        launcher: The number of the process that started the program. host: The machine that it runs on.
        started: Seconds since 1970, in UTC. ended: The same; None while it runs.
        notes: What else is to be known.
    """

    schema: str = RUN_SCHEMA
    program: str | None = None
    arguments: tuple[str, ...] = ()
    directory: str | None = None
    versions: dict[str, str | None] = {}
    world_size: int | None = None
    budget: float | None = None
    recorded: dict[str, Any] = {}
    thinned: tuple[ThinnedPart, ...] = ()
    exit_code: int | None = None
    processes: tuple[ProcessEnd, ...] = ()
    launcher: int | None = None
    host: str | None = None
    started: float | None = None
    ended: float | None = None
    notes: tuple[str, ...] = ()


class TraceGap(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is missing in a trace, or doubtful.

    Attributes:
        what: Its kind. ``damage``: bytes that cannot be read; ``dropped``: rows that were not kept;
            ``no end``: a process that stopped without a word; ``running``: one that still writes;
            ``no rank``: a rank of which there is no file; ``shorter``: a rank that ended before others;
            ``no begin``: a file whose process is not known; ``twice``: two processes of one rank at the same time;
            ``clock``: a clock that jumped; ``no run``: there is no ``run.json``, or it cannot be read;
            ``failed``: an exception that ended a process;
            ``unjudged``: a process of which nothing is judged any more, for rows before are lost;
            ``lost``: a table of a sealed trace that is missing or damaged;
            ``thinned``: what was recorded more seldom; ``trouble``: what recording failed at.
        text: A sentence that says so.
        rank: Of which rank. pid: Of which process. file: In which file of the folder.
        iteration: The last iteration that was recorded, or the one at which it is.
        bytes: How many bytes. rows: How many rows. part: Which part of the recording, where one was thinned.
    """

    what: Literal[
        "damage",
        "dropped",
        "no end",
        "running",
        "no rank",
        "shorter",
        "no begin",
        "twice",
        "clock",
        "no run",
        "failed",
        "unjudged",
        "lost",
        "thinned",
        "trouble",
    ]
    text: str
    rank: int | None = None
    pid: int | None = None
    file: str | None = None
    iteration: int | None = None
    bytes: int | None = None
    rows: int | None = None
    part: str | None = None
