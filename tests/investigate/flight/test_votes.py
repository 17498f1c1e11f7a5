from __future__ import annotations

import msgspec
import pytest

from preflight.investigate.flight.from_logs import flights_of_hits
from preflight.investigate.flight.votes import FlightEvidence, votes_of_flights
from preflight.vocabulary.log import Call, Flight, Hit, Who

from .jobs import Step, job, wrapped


@pytest.mark.parametrize("rank", [0, 5, 10, 15])
@pytest.mark.parametrize("keep", [1000, 8])
def test_a_rank_that_stops_before_a_call_is_found_behind_all_the_waiting(rank: int, keep: int) -> None:
    flights = job(lambda other, calls: calls[:13] if other == rank else calls)
    evidence = votes_of_flights(wrapped(flights.values(), keep))
    assert [one.rank for one in evidence.ranks if one.weight > 0] == [rank]
    assert "did not make the next one" in evidence.ranks[0].reasons[0].text


@pytest.mark.parametrize("rank", [0, 6, 15])
def test_a_rank_that_wrote_no_dump_is_found(rank: int) -> None:
    flights = job(lambda other, calls: calls[:13] if other == rank else calls)
    del flights[rank]
    evidence = votes_of_flights(list(flights.values()))
    assert [one.rank for one in evidence.ranks if one.weight > 0] == [rank]
    assert evidence.no_dump == (rank,)


def test_a_rank_whose_dump_was_lost_is_not_named_where_another_is_behind() -> None:
    flights = job(lambda other, calls: calls[:13] if other == 5 else calls)
    del flights[12]
    evidence = votes_of_flights(list(flights.values()))
    assert evidence.ranks[0].rank == 5
    assert evidence.ranks[0].share >= 0.5


def test_where_most_dumps_were_not_collected_their_absence_says_little() -> None:
    flights = job(lambda other, calls: calls[:13] if other == 5 else calls)
    evidence = votes_of_flights([flights[rank] for rank in (8, 9, 10, 11)])
    assert all(one.weight < 1.0 for one in evidence.ranks)


def test_without_the_size_of_the_job_the_ranks_go_to_the_last_one_seen() -> None:
    flights = job(lambda other, calls: calls[:13] if other == 0 else calls)
    del flights[0]
    told = [msgspec.structs.replace(one, groups={}, titles={"0": "default_pg"}) for one in flights.values()]
    assert votes_of_flights(told).ranks[0].rank == 0


def test_a_call_that_was_left_out_is_named_with_its_place() -> None:
    flights = job(lambda other, calls: calls[:8] + calls[9:] if other == 6 else calls)
    evidence = votes_of_flights(list(flights.values()))
    assert evidence.ranks[0].rank == 6
    assert evidence.differences[0].what == "operation"
    assert evidence.differences[0].shift == "rank 6 left out the all_reduce of step (train.py:10)"


def test_a_call_too_many_is_named_with_its_place() -> None:
    extra = Step("0", "barrier", 0, 99)
    flights = job(lambda other, calls: [*calls[:8], extra, *calls[8:]] if other == 9 else calls)
    evidence = votes_of_flights(list(flights.values()))
    assert evidence.ranks[0].rank == 9
    assert "barrier" in (evidence.text or "")


def test_a_skipped_call_of_the_same_size_shows_in_its_place_alone() -> None:
    def change(rank: int, calls: list[Step]) -> list[Step]:
        twice = [
            step for one in calls for step in ((one, Step("0", "all_reduce", 1, 31)) if one.line == 30 else (one,))
        ]
        at = next(n for n, step in enumerate(twice) if n > 8 and step.line == 30)
        return twice[:at] + twice[at + 1 :] if rank == 3 else twice

    evidence = votes_of_flights(list(job(change).values()))
    assert evidence.ranks[0].rank == 3
    assert [one.what for one in evidence.differences] == ["call-site"]
    assert "rank 3 left out" in (evidence.text or "")


def test_branches_that_call_from_several_places_are_no_difference() -> None:
    def change(rank: int, calls: list[Step]) -> list[Step]:
        return [msgspec.structs.replace(step, line=step.line + 500) for step in calls] if rank == 0 else calls

    evidence = votes_of_flights(list(job(change).values()))
    assert evidence.differences == ()
    assert evidence.ranks == ()


def test_as_many_of_each_side_is_not_decided() -> None:
    def change(rank: int, calls: list[Step]) -> list[Step]:
        return (
            [msgspec.structs.replace(step, elements=7) if step.line == 30 else step for step in calls]
            if rank < 8
            else calls
        )

    evidence = votes_of_flights(list(job(change).values()))
    assert evidence.differences[0].minority == ()
    assert max(one.weight for one in evidence.ranks) < 1.0


def pair(rank: int, *calls: tuple[str, int, int]) -> Flight:
    made = tuple(
        Call(
            sequence=n,
            group="0",
            name=name,
            state="scheduled",
            peer_to_peer=True,
            source=source,
            destination=there,
            created=n + 1.0,
        )
        for n, (name, source, there) in enumerate(calls)
    )
    return Flight(who=Who(rank=rank), file=rank, groups={"0": (0, 1, 2)}, calls=made)


def test_ranks_that_wait_for_each_other_in_a_circle_are_told() -> None:
    flights = [pair(0, ("recv", 1, 0)), pair(1, ("recv", 2, 1)), pair(2, ("recv", 0, 2))]
    evidence = votes_of_flights(flights)
    assert sorted(evidence.circle) == [0, 1, 2]
    assert "in a circle" in (evidence.text or "")
    assert len({one.weight for one in evidence.ranks}) == 1


def test_point_to_point_calls_are_matched_by_pair() -> None:
    flights = [pair(0, ("send", 0, 1)), pair(1, ("recv", 0, 1), ("recv", 2, 1)), pair(2)]
    flights[0] = msgspec.structs.replace(
        flights[0], calls=(msgspec.structs.replace(flights[0].calls[0], state="completed"),)
    )
    flights[1] = msgspec.structs.replace(
        flights[1], calls=(msgspec.structs.replace(flights[1].calls[0], state="completed"), flights[1].calls[1])
    )
    evidence = votes_of_flights(flights)
    assert evidence.ranks[0].rank == 2
    assert "rank 1 waits for it" in evidence.ranks[0].reasons[0].text


def test_a_device_that_stopped_is_the_rank_that_never_saw_the_end() -> None:
    flights = job(lambda other, calls: calls)
    stuck = flights[7]
    calls = tuple(
        msgspec.structs.replace(call, state="scheduled") if at >= 20 else call for at, call in enumerate(stuck.calls)
    )
    done = {call.group: call.sequence for call in calls if call.state == "completed"}
    flights[7] = msgspec.structs.replace(stuck, calls=calls, completed=done)
    evidence = votes_of_flights(list(flights.values()))
    assert [one.rank for one in evidence.ranks if one.weight > 0] == [7]
    assert "finished by its peers and not by it" in evidence.ranks[0].reasons[0].text


def line(rank: int, last: int, done: int, guid: str = "0", title: str = "default_pg") -> Hit:
    text = (
        f"[rank{rank}]:[E1120 10:00:00 ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID {guid}({title}) Rank {rank}] "
        f"Timeout at NCCL work: {done + 1}, last enqueued NCCL work: {last}, last completed NCCL work: {done}."
    )
    return Hit(signature="network.watchdog-state", file=rank, line=1, offset=0, text=text, who=Who(rank=rank))


def test_lines_of_the_log_stand_in_for_dumps() -> None:
    hits = [line(0, 9, 7), line(1, 9, 7), line(3, 9, 7), line(2, 7, 7)]
    evidence = votes_of_flights(flights_of_hits(hits), world_size=4)
    assert evidence.ranks[0].rank == 2


def caught(rank: int, number: int, name: str, guid: int = 0, count: int = 1024) -> list[Hit]:
    """The lines of a watchdog: the first names no group, the next one does."""
    work = f"WorkNCCL(SeqNum={number}, OpType={name}, NumelIn={count}, NumelOut={count}, Timeout(ms)=600000)"
    texts = [
        f"[rank{rank}]:[E ProcessGroupNCCL.cpp:685] [Rank {rank}] Watchdog caught collective operation timeout: {work}",
        f"[rank{rank}]:[E ProcessGroupNCCL.cpp:2252] [PG ID {guid} PG GUID {guid}(group_{guid}) Rank {rank}]  failure detected by "
        f"watchdog at work sequence id: {number} PG status: last enqueued work: {number}, last completed work: {number - 1}",
    ]
    return [Hit(signature="network.watchdog-timeout", file=rank, line=at, offset=0, text=text, who=Who(rank=rank))
            for at, text in enumerate(texts, 1)]  # fmt: skip


def test_nobody_has_arrived_together_where_watchdogs_name_different_calls() -> None:
    hits = [hit for rank in range(8) for hit in caught(rank, 40, "ALLGATHER" if rank == 5 else "ALLREDUCE")]
    evidence = votes_of_flights(flights_of_hits(hits), world_size=8)
    assert evidence.differences[0].minority == (5,)
    assert [one.rank for one in evidence.ranks if one.weight > 0] == [5]
    assert not any("everyone made" in reason.text for one in evidence.ranks for reason in one.reasons)


def test_calls_of_the_same_number_in_two_groups_are_no_difference() -> None:
    hits = [hit for rank in range(8) for hit in caught(rank, 40, "ALLREDUCE" if rank < 6 else "BROADCAST", rank // 6)]
    assert votes_of_flights(flights_of_hits(hits), world_size=8).differences == ()


def test_no_dumps_give_no_votes() -> None:
    assert votes_of_flights(()) == FlightEvidence()
    assert votes_of_flights([Flight(who=Who(), file=0), Flight(who=Who(rank=1), file=0, problem="cut off")]).ranks == ()
