from __future__ import annotations

import msgspec
import pytest

from preflight.investigate.hang.judge import Seen, judge
from preflight.investigate.hang.processes import RankProcess
from preflight.investigate.hang.told import report_of
from preflight.vocabulary.log import Call, Flight, Frame, Stack, Who

COLLECTIVE = (
    Frame("/x/site-packages/torch/distributed/distributed_c10d.py", 1, "all_reduce"),
    Frame("/job/train.py", 20, "step"),
)
LOADING = (
    Frame("/x/site-packages/torch/utils/data/dataloader.py", 9, "_next_data"),
    Frame("/job/train.py", 10, "step"),
)
OWN = (Frame("/job/train.py", 30, "validate"),)
BACKWARD = (
    Frame("/x/site-packages/torch/autograd/graph.py", 9, "_engine_run_backward"),
    Frame("/job/train.py", 12, "step"),
)


def processes(count: int, states: dict[int, str] | None = None) -> tuple[RankProcess, ...]:
    return tuple(
        RankProcess(
            pid=100 + rank,
            rank=rank,
            local_rank=rank,
            world_size=count,
            local_world_size=count,
            state=(states or {}).get(rank, "S"),
        )
        for rank in range(count)
    )


def stacks(count: int, other: dict[int, tuple[Frame, ...]]) -> tuple[Stack, ...]:
    return tuple(
        Stack(who=Who(rank=rank), thread="MainThread", main=True, frames=other.get(rank, COLLECTIVE))
        for rank in range(count)
    )


def seen(
    count: int = 8,
    states: dict[int, str] | None = None,
    other: dict[int, tuple[Frame, ...]] | None = None,
    **more: object,
) -> Seen:
    everybody = tuple(range(count))
    return Seen(
        **{"processes": processes(count, states), "stacks": stacks(count, other or {}), "still": everybody, **more}  # type: ignore[arg-type]
    )


def test_a_rank_that_does_not_communicate_is_named_with_its_place_and_what_it_does() -> None:
    judged = judge(seen(other={5: LOADING}))
    incident = judged.incident
    assert (incident.state, incident.culprit.ranks) == ("hung", (5,))
    assert (incident.category, incident.root_category, incident.symptom_category) == ("data", "data", "network")
    assert incident.culprit.confidence > 0.7
    assert "train.py:10" in incident.headline


def test_a_stopped_rank_and_one_in_its_own_code_are_both_named() -> None:
    judged = judge(seen(states={6: "T"}, other={2: OWN, 6: OWN}))
    assert judged.incident.culprit.ranks == (2, 6)
    assert "state T" in judged.incident.headline
    assert any(step.command == "kill -CONT 106" for step in judged.incident.next)


def test_of_a_stopped_rank_the_place_at_which_it_stands_says_nothing() -> None:
    """It stopped wherever it was: in a loader or a compiler is as good a place as any."""
    incident = judge(seen(states={6: "T"}, other={6: LOADING})).incident
    assert incident.culprit.ranks == (6,)
    assert (incident.category, incident.root_category, incident.symptom_category) == (
        "preemption", "preemption", "network",
    )  # fmt: skip
    assert next(step.command for step in incident.next if step.kind == "act") == "kill -CONT 106"
    assert not any("waits for, reads or computes" in step.text for step in incident.next)


def test_ranks_that_end_while_they_are_looked_at_do_not_hang() -> None:
    some = seen(8, states=dict.fromkeys(range(5), "X"))
    judged = judge(msgspec.structs.replace(some, stacks=some.stacks[5:], still=(5, 6, 7)))
    report = report_of(judged, some, ())
    assert (judged.incident.state, report.verdict) == ("ended", "UNKNOWN")
    assert judged.incident.culprit.ranks == ()
    assert "5 of 8 ranks ended" in judged.incident.headline


def test_where_nobody_is_named_no_category_is_claimed() -> None:
    incident = judge(seen()).incident
    assert (incident.state, incident.category, incident.symptom_category) == ("hung", "cannot-tell", "network")


def test_each_rank_is_shown_where_everything_is_wanted() -> None:
    given = seen(states={6: "T"})
    judged = judge(given)
    few, all_ = (report_of(judged, given, (), verbose=verbose).notes for verbose in (False, True))
    assert [note for note in all_ if note not in few and note.startswith("rank 6: process 106, stopped by a signal")]
    assert len(all_) == len(few) + 8


@pytest.mark.parametrize("state", ["Z", "X"])
def test_a_rank_that_ended_is_named(state: str) -> None:
    judged = judge(seen(states={1: state}))
    assert (judged.incident.state, judged.incident.culprit.ranks) == ("hung", (1,))


def test_a_rank_without_a_process_is_named() -> None:
    everybody = seen()
    judged = judge(
        Seen(processes=everybody.processes[:-1], stacks=everybody.stacks[:-1], still=tuple(range(7)), missing=(7,))
    )
    assert judged.incident.culprit.ranks == (7,)


def test_where_all_wait_in_the_same_call_nobody_is_named() -> None:
    judged = judge(seen())
    assert judged.incident.state == "hung"
    assert judged.incident.culprit.ranks == ()
    assert judged.incident.culprit.reason is not None
    assert "all 8 wait in the same call" in judged.incident.headline


def test_ranks_that_move_do_not_hang() -> None:
    judged = judge(seen(other={5: LOADING}, still=(), moving=tuple(range(8))))
    report = report_of(judged, seen(), ())
    assert (judged.incident.state, judged.incident.category, report.verdict) == ("running", "none", "GO")
    assert judged.incident.culprit.ranks == ()


def test_ranks_in_their_own_code_that_stand_still_are_stalled_and_not_hung() -> None:
    judged = judge(seen(other=dict.fromkeys(range(8), OWN)))
    assert judged.incident.state == "stalled"
    assert report_of(judged, seen(), ()).verdict == "UNKNOWN"


def flight(rank: int, count: int) -> Flight:
    calls = tuple(
        Call(
            sequence=number,
            group="0",
            name="all_reduce",
            state="completed" if number < 5 else "scheduled",
            created=float(number),
        )
        for number in range(1, count + 1)
    )
    return Flight(
        who=Who(rank=rank), file=-1, groups={"0": (0, 1, 2, 3)}, calls=calls, enqueued={"0": count}, completed={"0": 4}
    )


def test_recorders_add_to_stacks() -> None:
    flights = tuple(flight(rank, 4 if rank == 2 else 5) for rank in range(4))
    alone = judge(seen(4, other={2: OWN}))
    joined = judge(seen(4, other={2: OWN}, flights=flights))
    assert joined.incident.culprit.ranks == (2,)
    assert joined.incident.culprit.confidence > alone.incident.culprit.confidence
    assert any("Flight Recorder" in note for note in report_of(joined, seen(4), ()).notes)


def test_recorders_of_one_node_say_nothing_of_ranks_on_others() -> None:
    here = tuple(RankProcess(pid=1 + rank, rank=rank, world_size=8, state="S") for rank in range(4))
    flights = tuple(flight(rank, 5) for rank in range(4))
    judged = judge(Seen(processes=here, stacks=stacks(4, {}), still=(0, 1, 2, 3), flights=flights))
    assert judged.incident.culprit.ranks == ()
    assert any("other nodes" in step.text for step in judged.incident.next)


def test_ranks_that_stand_still_in_the_backward_pass_wait_for_the_one_outside_of_it() -> None:
    waiting = dict.fromkeys(range(4), BACKWARD) | {1: OWN}
    incident = judge(seen(4, other=waiting)).incident
    assert (incident.state, incident.culprit.ranks) == ("hung", (1,))
    assert incident.culprit.confidence > 0.6
    moving = judge(seen(4, other=waiting, moving=(0,), still=(1, 2, 3))).incident
    assert moving.state != "hung"


def test_of_two_ranks_the_one_that_sleeps_is_named() -> None:
    for waiting in (COLLECTIVE, BACKWARD):
        incident = judge(seen(2, other={0: waiting, 1: OWN})).incident
        assert (incident.state, incident.culprit.ranks) == ("hung", (1,))
