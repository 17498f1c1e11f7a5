"""Looks at a live job, or at the stacks and dumps that somebody took of it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from preflight.errors import InputError
from preflight.investigate.hang.judge import Seen
from preflight.investigate.hang.logged import logged_stacks
from preflight.investigate.hang.processes import RankProcess, find_ranks, jobs_of, refreshed
from preflight.investigate.hang.recorder import record
from preflight.investigate.hang.taking import Taken, take
from preflight.investigate.paths import there
from preflight.investigate.stacks.grouping import main_threads


def look_at(
    pids: Sequence[int] = (), *, seconds: float = 30.0, between: float = 1.0, number: int | None = None
) -> Seen:
    """Look twice at the ranks of a job on this node.

    Args:
        pids: Processes to look at, with the ranks that they started; empty: the job with most ranks on this node.
        seconds: Deadline for everything together.
        between: Seconds between the two looks: who moves meanwhile does not hang.
        number: A signal on which the program prints its stacks, for where py-spy may not look.

    Raises:
        InputError: There are no ranks on this node, or no stacks could be taken of any.
    """
    end = time.monotonic() + seconds
    if not os.path.isdir("/proc/self"):
        raise InputError("processes can be looked at on Linux alone", "take stacks of all ranks, and name their files")
    found = find_ranks(pids)
    if not found:
        whose = f"in the processes {', '.join(map(str, pids))}" if pids else "on this node"
        raise InputError(
            f"no rank was found {whose}", "a launcher gives each rank RANK and WORLD_SIZE; or name the processes"
        )
    jobs = jobs_of(found)
    processes = next(iter(jobs.values()))
    notes = [f"other jobs on this node: {len(jobs) - 1}; name a process of one to look at it"] if len(jobs) > 1 else []
    before = take(processes, seconds=max(0.5, (end - time.monotonic()) / 2), number=None)
    time.sleep(max(0.0, min(between, end - time.monotonic())))
    after = take(processes, seconds=max(0.5, end - time.monotonic() - 2.0), number=number)
    flights, said = record(processes, seconds=max(0.5, min(5.0, end - time.monotonic())))
    now = tuple(refreshed(one) for one in processes)
    notes += [f"rank {one.process.rank}: {one.problem}" for one in after if one.problem]
    alive = [one for one in now if one.state not in ("Z", "X")]
    if not any(one.stacks for one in after) and alive and not flights:
        raise InputError(f"no stacks could be taken: {after[0].problem}", "run it as the user of the job, or as root")
    moving, still = _moved(before, after)
    return Seen(
        processes=now,
        stacks=tuple(stack for one in after for stack in one.stacks),
        moving=moving,
        still=still,
        flights=flights,
        missing=_missing(now),
        notes=(*notes, *said),
    )


def _moved(before: Sequence[Taken], after: Sequence[Taken]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    moving: list[int] = []
    still: list[int] = []
    for one, other in zip(before, after, strict=True):
        first, second = main_threads(one.stacks), main_threads(other.stacks)
        if other.process.rank is None or not first or not second:
            continue
        same = [stack.frames for stack in first.values()] == [stack.frames for stack in second.values()]
        (still if same else moving).append(other.process.rank)
    return tuple(moving), tuple(still)


def _missing(processes: Sequence[RankProcess]) -> tuple[int, ...]:
    """Return the ranks that the launcher put on this node and that are not there: local ranks count on without a gap."""
    sizes = {one.local_world_size for one in processes if one.local_world_size}
    bases = {one.rank - one.local_rank for one in processes if one.rank is not None and one.local_rank is not None}
    if len(sizes) != 1 or len(bases) != 1:
        return ()
    base, size = bases.pop(), sizes.pop()
    here = {one.rank for one in processes}
    return tuple(rank for rank in range(base, base + (size or 0)) if rank not in here)


def look_in(paths: Sequence[str]) -> Seen:
    """Look at stacks and dumps in files and folders.

    Raises:
        InputError: There are none in them.
    """
    from preflight.source.logs.read import read_logs

    for path in paths:
        there(path)
    reading = read_logs(paths)
    stacks = (*logged_stacks(reading), *reading.stacks)
    problems = tuple(f"{file.path}: {file.problem}" for file in reading.files if file.problem)
    if not stacks and not reading.flights:
        refused = f"; {problems[0]}" if problems else ""
        raise InputError(
            f"no stacks and no Flight Recorder dumps in {', '.join(paths)}{refused}",
            "py-spy dump --pid PID > rank_0.txt, one file for each rank",
        )
    return Seen(stacks=stacks, flights=reading.flights, files=reading.files, notes=(*problems, *reading.notes))
