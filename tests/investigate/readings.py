"""Readings made by hand, for tests of what is decided from them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from preflight.vocabulary.log import Ending, Hit, LogFile, Reading, StepLine, Who
from preflight.vocabulary.signature import Cause, Signature

START = 1_760_000_000.0


def signature(name: str, category: str, role: str, **more: object) -> Signature:
    """Return a signature without expressions: readings bear the hits themselves."""
    more.setdefault("title", f"what {name} stands for")
    return Signature(id=name, category=category, role=role, literals=("x",), match=("x",), no_match=("y",), **more)  # type: ignore[arg-type]


SIGNATURES = (
    signature(
        "oom.allocation", "oom", "root", next=("Make the micro-batch smaller.",),
        causes=(Cause("peak", "The peak is larger than the card", 0.7, None, ("memory-snapshot",)),
                Cause("other-process", "Another process holds memory", 0.3, None, ("process-list",))),
    ),
    signature("usercode.shape", "usercode", "root"),
    signature("data.missing", "data", "root"),
    signature("network.watchdog", "network", "cascade", shift="timeout"),
    signature("network.closed", "network", "cascade"),
    signature("network.barrier", "network", "cascade", points_to="silent"),
    signature("numerical.overflow", "numerical", "recovered"),
    signature("hardware.xid", "hardware", "confirmation"),
    signature("elastic.closing", "other", "teardown"),
    signature("elastic.restart", "none", "progress", marks="restart"),
    signature("progress.start", "none", "progress", marks="start"),
    signature("progress.end", "none", "progress", marks="end"),
    signature("progress.barrier", "none", "progress", marks="barrier"),
)  # fmt: skip


def files(world: int, per_node: int = 2, lines: int = 100) -> tuple[LogFile, ...]:
    """Return a file for each rank."""
    return tuple(
        LogFile(index=rank, path=f"logs/rank_{rank}.log", kind="text", lines=lines, size=1,
                who=Who(rank=rank, node=f"node{rank // per_node}", local_rank=rank % per_node))
        for rank in range(world)
    )  # fmt: skip


def hit(name: str, rank: int, line: int, at: float | None = None, **more: object) -> Hit:
    """Return a line of a rank's file, so many seconds after the start."""
    time = None if at is None else START + at
    return Hit(signature=name, file=rank, line=line, offset=0, text=f"{name} of {rank}", time=time, **more)  # type: ignore[arg-type]


def steps(ranks: Iterable[int], numbers: Sequence[int], first_line: int = 10, at: float = 0.0) -> tuple[StepLine, ...]:
    """Return a line for each step of each rank, one a second."""
    return tuple(
        StepLine(file=rank, line=first_line + index, step=number, values={"loss": 1.0}, time=START + at + index)
        for rank in ranks
        for index, number in enumerate(numbers)
    )


def ending(rank: int, code: int) -> Ending:
    """Return how a rank ended, as its scheduler tells it."""
    return Ending(about=Who(rank=rank), code=code, teller="slurm", file=rank, line=99)


def skewed(seed: int, nodes: int, markers: int, whole: bool, noise: float) -> tuple[Reading, dict[str, float]]:
    """Return the steps of ranks on nodes whose clocks differ, and by how much they do."""
    draw = random.Random(seed)
    ahead = {f"node{number}": draw.uniform(-30, 30) if number else 0.0 for number in range(nodes)}
    lines = []
    now = START + draw.random()
    for step in range(markers):
        now += draw.uniform(0.4, 2.3)
        for rank in range(nodes * 2):
            time = now + ahead[f"node{rank // 2}"] + abs(draw.gauss(0, noise))
            lines.append(
                StepLine(file=rank, line=step + 1, step=step, values={}, time=float(int(time)) if whole else time)
            )
    return Reading(files=files(nodes * 2), steps=tuple(lines), world_size=nodes * 2), ahead
