"""Flights of made-up jobs: every rank runs the same steps over data and pipeline groups, and one does otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from preflight.vocabulary.log import Call, Flight, Frame, Who

START = 1_700_000_000.0


class Step(msgspec.Struct, frozen=True):
    """One call of the program: the group, the operation, elements, line of the program."""

    group: str
    name: str
    elements: int
    line: int


def program(steps: int, tensor: str, data: str) -> list[Step]:
    """Return the calls of a rank: two in its tensor group and one in its data group each step, and one of all."""
    calls = []
    for _ in range(steps):
        calls += [Step(tensor, "all_reduce", 64, 10), Step(tensor, "_all_gather_base", 32, 11)]
        calls += [Step(data, "all_reduce", 128, 20), Step("0", "all_reduce", 1, 30)]
    return calls


def run(programs: dict[int, list[Step]], groups: dict[str, tuple[int, ...]], ahead: int = 4) -> dict[int, Flight]:
    """Let the ranks call asynchronously, at most ``ahead`` unfinished calls each, until nobody gets further."""
    made: dict[int, list[int]] = {rank: [] for rank in programs}  # number of each call within its group
    done: dict[int, int] = dict.fromkeys(programs, 0)  # calls finished, in order
    moved = True
    while moved:
        moved = False
        for rank, calls in programs.items():
            while len(made[rank]) < len(calls) and len(made[rank]) - done[rank] < ahead:
                step = calls[len(made[rank])]
                made[rank].append(1 + sum(one.group == step.group for one in calls[: len(made[rank])]))
                moved = True
            while done[rank] < len(made[rank]) and _all_there(rank, done[rank], programs, groups, made):
                done[rank] += 1
                moved = True
    return {rank: _flight(rank, programs[rank], groups, made[rank], done[rank]) for rank in programs}


def _all_there(
    rank: int, at: int, programs: dict[int, list[Step]], groups: dict[str, tuple[int, ...]], made: dict[int, list[int]]
) -> bool:
    step, number = programs[rank][at], made[rank][at]
    for other in groups[step.group]:
        same = [
            one for one, n in zip(programs[other], made[other], strict=False) if one.group == step.group and n == number
        ]
        if not same or (same[0].name, same[0].elements) != (step.name, step.elements):
            return False
    return True


def _flight(rank: int, calls: list[Step], groups: dict[str, tuple[int, ...]], made: list[int], done: int) -> Flight:
    kept = tuple(
        Call(
            sequence=number,
            group=step.group,
            name=step.name,
            state="completed" if at < done else "scheduled",
            sizes=((step.elements,),),
            dtypes=("Float",),
            created=START + at,
            frames=(
                Frame("/x/site-packages/torch/distributed/c10d.py", 1, step.name),
                Frame("train.py", step.line, "step"),
            ),
        )
        for at, (step, number) in enumerate(zip(calls, made, strict=False))
    )
    reached = [{one.group: one.sequence for one in some} for some in (kept, kept[:done])]
    return Flight(
        who=Who(rank=rank),
        file=rank,
        groups={name: members for name, members in groups.items() if rank in members},
        calls=kept,
        enqueued=reached[0],
        completed=reached[1],
    )


def job(
    change: Callable[[int, list[Step]], list[Step]], world: int = 16, steps: int = 6, tensor: int = 4
) -> dict[int, Flight]:
    """Run a job of tensor and data groups in which ``change`` may alter what a rank calls."""
    groups: dict[str, tuple[int, ...]] = {"0": tuple(range(world))}
    programs = {}
    for rank in range(world):
        first = rank // tensor * tensor
        groups[f"t{first}"] = tuple(range(first, first + tensor))
        groups[f"d{rank % tensor}"] = tuple(range(rank % tensor, world, tensor))
        programs[rank] = change(rank, program(steps, f"t{first}", f"d{rank % tensor}"))
    return run(programs, groups)


def wrapped(flights: Iterable[Flight], keep: int) -> list[Flight]:
    """Keep only the last calls of each, as a small ring does."""
    return [msgspec.structs.replace(one, calls=one.calls[-keep:], wrapped=len(one.calls) > keep) for one in flights]
