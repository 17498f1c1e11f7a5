from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from preflight.source.dumps import flight_recorder
from preflight.source.dumps.opening import format_of, read_dump
from preflight.vocabulary.log import Flight, LogFile, Who


def flight_of(content: bytes, name: str = "nccl_trace_rank_3", **more: Any) -> Flight:
    assert format_of(name, content) is flight_recorder
    part = read_dump(flight_recorder, content, LogFile(index=7, path=f"dumps/{name}", kind="flight", **more))
    assert len(part.flights) == 1
    return part.flights[0]


def entry(number: int, **more: Any) -> dict[str, Any]:
    return {
        "record_id": number,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "op_id": number,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": 1_700_000_000_000_000_000 + number,
        "input_sizes": [[2, 3]],
        "input_dtypes": ["Float"],
        "output_sizes": [[2, 3]],
        "output_dtypes": ["Float"],
        "state": "completed",
        "is_p2p": False,
        **more,
    }


def test_a_dump_tells_calls_groups_and_how_far_it_came() -> None:
    dump = {
        "version": "2.9",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
        "pg_status": {
            "0": {"last_enqueued_collective": 9, "last_started_collective": -1, "last_completed_collective": 7}
        },
        "entries": [
            entry(8, state="started", frames=[{"name": "step", "filename": "train.py", "line": 4}]),
            entry(9, state="scheduled"),
        ],
    }
    flight = flight_of(pickle.dumps(dump, 2))
    assert flight.who == Who(rank=3)
    assert flight.groups == {"0": (0, 1, 2, 3)}
    assert flight.titles == {"0": "default_pg"}
    assert (flight.enqueued, flight.started, flight.completed) == ({"0": 9}, {"0": 8}, {"0": 7})
    assert flight.wrapped
    call = flight.calls[0]
    assert (call.name, call.sizes, call.dtypes, call.state) == ("all_reduce", ((2, 3),), ("Float",), "started")
    assert call.created == 1_700_000_000.0
    assert call.frames[0].path == "train.py"


def test_a_rank_that_waits_for_nothing_still_tells_how_far_it_came_in_each_group() -> None:
    names = {"0": [0, 1, 2, 3], "12": [3], "7": [2, 3]}
    dump = {
        "version": "2.9",
        "pg_config": {name: {"name": name, "desc": "", "ranks": str(ranks)} for name, ranks in names.items()},
        "pg_status": {
            str(number): {"last_enqueued_collective": 10 * number, "last_completed_collective": 10 * number}
            for number in (0, 4, 5)
        },
        "entries": [],
    }
    flight = flight_of(pickle.dumps(dump, 2), "somewhere_dump_3")
    assert flight.enqueued == {"0": 0, "7": 40, "12": 50}


def test_peers_are_counted_from_the_group_s_members() -> None:
    dump = {
        "version": "2.9",
        "pg_config": {"5": {"name": "5", "desc": "pipe", "ranks": "[2, 6, 10]"}},
        "entries": [
            entry(0, process_group=("5", "pipe"), profiling_name="nccl:send 0->2", is_p2p=True, p2p_seq_id=4),
            entry(1, process_group=("5", "pipe"), profiling_name="nccl:recv 0<-1", is_p2p=True, p2p_seq_id=5),
        ],
    }
    send, receive = flight_of(pickle.dumps(dump, 2)).calls
    assert (send.name, send.sequence, send.source, send.destination) == ("send", 4, 2, 10)
    assert (receive.name, receive.source, receive.destination) == ("recv", 6, 2)


@pytest.mark.parametrize(
    ("dump", "sequence", "group"),
    [
        ([{"profiling_name": "nccl:all_reduce", "seq_id": 5, "pg_id": 2, "state": "scheduled"}], 5, "2"),
        (
            {
                "version": "1.5",
                "entries": [{"profiling_name": "nccl:all_reduce", "seq_id": 6, "pg_id": 0, "state": "started"}],
            },
            6,
            "0",
        ),
        (
            {
                "version": "2.0",
                "entries": [
                    {"profiling_name": "nccl:barrier", "collective_seq_id": 3, "p2p_seq_id": 0, "pg_id": 1, "state": ""}
                ],
            },
            3,
            "1",
        ),
    ],
)
def test_older_formats_are_read(dump: Any, sequence: int, group: str) -> None:
    call = flight_of(pickle.dumps(dump, 2)).calls[0]
    assert (call.sequence, call.group) == (sequence, group)


def test_json_writes_numbers_as_words_and_unknown_times_as_zero() -> None:
    dump = {
        "entries": [
            entry(1, state="scheduled", retired=True, profiling_name="gloo:all_reduce", time_discovered_completed_ns=0)
        ],
        "pg_config": {"": {"desc": "", "name": "", "ranks": "[0]"}},
        "pg_status": {
            "0": {"last_completed_collective": "1", "last_enqueued_collective": "1", "last_started_collective": "-1"}
        },
        "version": "2.10",
    }
    flight = flight_of(json.dumps(dump).encode(), "rank_0.json")
    assert flight.groups == {}
    assert flight.enqueued == flight.completed == {"0": 1}
    assert flight.calls[0].completed is None
    assert flight.calls[0].state == "completed"


@pytest.mark.parametrize("written", [lambda dump: pickle.dumps(dump, 2), lambda dump: json.dumps(dump).encode()])
def test_a_dump_that_is_cut_off_gives_the_calls_before_the_cut(written: Any) -> None:
    content = written({"version": "2.9", "pg_config": {}, "entries": [entry(number) for number in range(40)]})
    flight = flight_of(content[: len(content) // 2])
    assert flight.problem is not None
    assert 10 <= len(flight.calls) < 40
    assert [call.sequence for call in flight.calls[:9]] == list(range(9))


def test_a_malicious_dump_is_named_and_not_run(tmp_path: Path) -> None:
    target = tmp_path / "made"

    class Evil:
        def __reduce__(self) -> Any:
            return Path.mkdir, (target,)

    part = read_dump(
        flight_recorder,
        pickle.dumps({"entries": [Evil()]}, 2),
        LogFile(index=0, path="nccl_trace_rank_0", kind="flight"),
    )
    assert not target.exists()
    assert part.flights == ()
    assert part.problem is not None
    assert "nothing of it was run" in part.problem


@pytest.mark.parametrize("content", [b"\x80\x02}.", b"\x80\x02N.", b"\x80\x04\x95", b"\x80\x02]q\x00(K\x01K\x02e."])
def test_a_dump_with_nothing_in_it_says_so(content: bytes) -> None:
    part = read_dump(flight_recorder, content, LogFile(index=0, path="nccl_trace_rank_0", kind="flight"))
    assert part.problem is not None


def test_the_rank_comes_from_the_name_then_the_folder_then_the_groups() -> None:
    dump = {"version": "2.9", "pg_config": {"1": {"ranks": "[4, 5]"}, "2": {"ranks": "[5, 9]"}}, "entries": [entry(1)]}
    content = pickle.dumps(dump, 2)
    assert flight_of(content, "comm_lib_trace_rank_12").who.rank == 12
    assert flight_of(content, "trace.pickle", who=Who(rank=8)).who.rank == 8
    assert flight_of(content, "trace.pickle").who.rank == 5
