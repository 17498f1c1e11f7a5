"""Numbers that look like ranks of the run and are none: those of groups of ranks, of tasks that are agents, of what is left over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.source.logs.styles import style_of
from preflight.vocabulary.incident import Incident

Investigated = Callable[[str], Incident]


@pytest.fixture
def incident_of(tmp_path: Path) -> Investigated:
    def investigated(text: str) -> Incident:
        (tmp_path / "console.log").write_text(text)
        return diagnose([str(tmp_path)]).incident

    return investigated


def entry(number: int, rank: int, local: int, host: str, second: int, *, whole: bool = True) -> str:
    head = f"[{number}]:\n  time      : 2026-03-04_05:06:{second:02d}\n  host      : {host}\n"
    return (
        f"{head if whole else ''}  rank      : {rank} (local_rank: {local})\n  exitcode  : 1 (pid: {4000 + rank})\n"
        "  error_file: <N/A>\n"
    )


def table(*entries: str) -> str:
    rule = "-" * 60 + "\n"
    return (
        f"train.py FAILED\n{rule}Failures:\n{''.join(entries[1:]) or '  <NO_OTHER_FAILURES>'}\n{rule}"
        f"Root Cause (first observed failure):\n{entries[0]}{'=' * 60}\n"
    )


def test_the_task_of_srun_that_is_an_agent_is_no_rank(incident_of: Investigated) -> None:
    incident = incident_of(table(entry(0, 13, 5, "cn7", 1)) + "srun: error: cn7: task 1: Exited with exit code 1\n")
    assert incident.culprit.ranks == (13,)
    assert 1 not in incident.ranks_seen
    assert incident.nodes_seen == ("cn7",)


def test_tasks_of_srun_are_ranks_where_no_agent_speaks(incident_of: Investigated) -> None:
    lines = [f"{rank}: step {step} loss 1.{step}" for step in range(5) for rank in range(4)]
    told = "srun: error: cn7: task 1: Segmentation fault (core dumped)\n"
    assert incident_of("\n".join(lines) + "\n" + told).culprit.ranks == (1,)


def test_ranks_of_groups_are_no_ranks_of_the_run(incident_of: Investigated) -> None:
    incident = incident_of(
        "cn7:900:990 [4] NCCL INFO comm 0x55a rank 0 nranks 2 cudaDev 4 busId c5000 - Abort COMPLETE\n"
        "[rank12]:[E304 05:06:07.314069184 ProcessGroupNCCL.cpp:1844] [PG ID 9 PG GUID 41 Rank 0] Timeout at NCCL work: 87, "
        "last enqueued NCCL work: 87, last completed NCCL work: 86.\n"
    )
    assert incident.culprit.ranks == ()
    assert incident.ranks_seen == (12,)


def test_ranks_of_the_largest_group_are_those_of_the_run(incident_of: Investigated) -> None:
    join = (
        "cn7:{}:{} [{}] NCCL INFO ncclCommInitRank comm 0x55a rank {} nranks {} cudaDev {} busId {}000 - Init START\n"
    )
    lines = [join.format(900 + rank, 900 + rank, rank, rank, 4, rank, "1235"[rank]) for rank in range(4)]
    lines += [join.format(900 + rank, 900 + rank, rank, rank % 2, 2, rank, "1235"[rank]) for rank in range(4)]
    broken = "cn7:902:991 [2] include/alloc.h:125 NCCL WARN Cuda failure 'uncorrectable ECC error encountered'\n"
    incident = incident_of("".join(lines) + broken)
    assert incident.ranks_seen == (0, 1, 2, 3)
    assert incident.culprit.ranks == (2,)


def test_an_entry_that_was_cut_is_not_the_first_of_its_table(incident_of: Investigated) -> None:
    cut = entry(3, 3, 3, "cn7", 0, whole=False) + "-" * 60 + "\nRoot Cause (first observed failure):\n"
    told = cut + entry(0, 0, 0, "cn7", 52) + "=" * 60 + "\n" + table(entry(0, 4, 0, "cn7", 1))
    assert incident_of(told).culprit.ranks == (4,)


def test_one_rank_that_speaks_does_not_tell_who_the_worker_that_died_was(incident_of: Investigated) -> None:
    incident = incident_of(
        "(raylet) A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the "
        "problem, check the logs for the dead worker. Worker ID: d893 Node ID: 8440 Worker IP address: 10.1.2.3 "
        "Worker port: 10185 Worker PID: 738 Worker exit type: SYSTEM_ERROR\n"
        "(Worker pid=922, ip=10.1.2.3) [rank1]: step 4 loss 2.0\n"
    )
    assert incident.culprit.ranks == ()
    assert incident.ranks_seen == (1,)


ASSERTED = "cn7:{}:990 [{}] include/alloc.h:125 NCCL WARN Cuda failure 710 'device-side assert triggered'\n"


@pytest.mark.parametrize(
    ("processes", "culprit"),
    [
        (((902, 2),), (2,)),  # the device of a process is its place on its node
        (((902, 0),), ()),  # each process may see a device of its own alone
        (((902, 1), (902, 2)), ()),  # a process with several devices
        (((901, 1), (902, 1)), ()),  # two processes on a device, or two that see others
    ],
)
def test_the_device_that_nccl_names_is_a_place(
    incident_of: Investigated, processes: tuple[tuple[int, int], ...], culprit: tuple[int, ...]
) -> None:
    assert incident_of("".join(ASSERTED.format(*one) for one in processes)).culprit.ranks == culprit


def test_the_device_that_nccl_names_is_no_rank_where_ranks_are_told(incident_of: Investigated) -> None:
    step = "[rank12]: step 4 loss 2.0\n[rank12]: RuntimeError: Connection closed by peer [10.1.0.1]:4411\n"
    assert incident_of(step + ASSERTED.format(902, 2)).culprit.ranks != (2,)


def test_the_device_that_nccl_names_is_no_rank_where_lines_speak_of_ranks(incident_of: Investigated) -> None:
    told = (
        "cn7:902:902 [3] init.cc:1247 NCCL WARN Mismatched collective detected, please check your collective calls at and "
        "around rank 39. You can use NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=COLL to see the collective logs\n"
    )
    assert incident_of(told).culprit.ranks == (39,)


def labelled(*numbers: int, says: str = "tick {} of the run") -> str:
    return "".join(f"[{number}] {says.format(line)}\n" for line, number in enumerate(numbers))


FAILS = "".join(
    f'[{rank}] Traceback (most recent call last):\n[{rank}]   File "/job/train.py", line 20, in step\n'
    f"[{rank}] RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.1.0.1]:60\n"
    for rank in (3, 0, 1)
)


def test_a_number_in_brackets_before_every_line_is_its_writer(incident_of: Investigated) -> None:
    incident = incident_of(labelled(0, 1, 3, 2, 2, 0, 3, 1, 1, 0, 2, 3, 0, 0, 1, 2) + FAILS)
    assert incident.culprit.ranks == (2,)


@pytest.mark.parametrize(
    "text",
    [
        labelled(*range(4), *range(4), *range(4), *range(4)),  # a list that is printed again and again
        labelled(*(number // 4 for number in range(16))),  # numbers of epochs
        labelled(*(1, 2, 2, 1) * 4),  # whoever counts from nought is not there
        labelled(*(epoch for _fold in range(3) for epoch in (0, 0, 0, 1, 1, 1, 2, 2, 2))),  # epochs of folds
        labelled(*(epoch for last in (4, 3, 5) for epoch in range(last) for _batch in range(3 + epoch % 2))),
        labelled(*(0, 0, 1, 1) * 5),  # two are as well two epochs
    ],
)
def test_other_numbers_in_brackets_are_no_writers(text: str) -> None:
    assert style_of(text.encode()) == ""
