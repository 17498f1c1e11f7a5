"""Ranks that differ: the odd one of several, and that of two alone nothing tells which it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from preflight.investigate.culprit.pairs import TELLS
from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Culprit

CLOSED = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:6053"
TOO_MUCH = (
    "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n"
    "  what():  [enforce fail at pair.cc:456] op.preamble.length <= op.nbytes. 64 vs 48. Received data size doesn't match"
    " expected size. Is there a distributed collective mismatch in your code?\n"
)


def shapes(rank: int) -> str:
    return raised(
        rank,
        f"RuntimeError: [{rank}]: params[0] in this process with sizes [48, 16] appears not to match sizes of the same param"
        " in process 0.",
    )


def counts(rank: int, mine: int, other: int, theirs: int) -> str:
    said = f"Rank {rank} has {mine} params, while rank {other} has inconsistent {theirs} params."
    return raised(rank, f"RuntimeError: DDP expects same model across all ranks, but {said}")


def raised(rank: int, says: str) -> str:
    lead = f"[rank{rank}]: "
    frame = '  File "/job/train.py", line 40, in main\n'
    return f"{lead}Traceback (most recent call last):\n{lead}{frame}{lead}{says}\n"


def culprit(folder: Path, logs: Mapping[int, str], agent: str = "") -> Culprit:
    for rank, text in logs.items():
        (folder / f"worker_rank{rank}.log").write_text(f"train.py: rank {rank} of {len(logs)}\n{text}")
    if agent:
        (folder / "console.log").write_text(agent)
    incident = diagnose([str(folder)]).incident
    assert incident is not None
    return incident.culprit


def failed(rank: int, code: int) -> str:
    return (
        "E1126 21:45:16.142000 19056 torch/distributed/elastic/multiprocessing/api.py:1002] failed "
        f"(exitcode: {code}) local_rank: {rank} (pid: {19498 + rank}) of binary: /opt/env/bin/python\n"
    )


@pytest.mark.parametrize(
    ("complaining", "world", "odd"),
    [((1,), 4, (1,)), ((2, 3), 5, (2, 3)), ((1, 2, 3), 4, (0,)), ((1, 2), 3, (0,)), ((1, 2, 3), 5, (0, 4))],
)
def test_models_are_compared_with_that_of_rank_0(
    tmp_path: Path, complaining: tuple[int, ...], world: int, odd: tuple[int, ...]
) -> None:
    logs = {rank: shapes(rank) if rank in complaining else raised(rank, CLOSED) for rank in range(world)}
    assert culprit(tmp_path, logs).ranks == odd


@pytest.mark.parametrize(
    "logs",
    [
        {0: raised(0, CLOSED), 1: shapes(1)},
        {0: counts(0, 4, 1, 6), 1: counts(1, 6, 0, 4)},
        {0: raised(0, CLOSED), 1: TOO_MUCH},
    ],
    ids=["shapes", "counts", "sizes"],
)
def test_which_of_two_is_the_odd_one_is_not_known(tmp_path: Path, logs: dict[int, str]) -> None:
    found = culprit(tmp_path, logs, agent=failed(1, 1))
    assert found.ranks == ()
    assert found.reason == TELLS


def test_which_of_two_neighbours_brought_the_other_size_is_not_sure(tmp_path: Path) -> None:
    logs = {rank: TOO_MUCH if rank == 2 else raised(rank, CLOSED) for rank in range(4)}
    found = culprit(tmp_path, logs)
    assert (found.ranks, found.one_of) == ((2, 3), True)
    chances = [suspect.probability for suspect in found.suspects[:2]]
    assert chances[0] == pytest.approx(chances[1])


def test_of_two_the_one_that_names_a_cause_of_its_own_is_known(tmp_path: Path) -> None:
    own = raised(0, "KeyError: 'hidden_size'") + counts(0, 4, 1, 6)
    assert culprit(tmp_path, {0: own, 1: counts(1, 6, 0, 4)}).ranks == (0,)


def test_of_two_the_one_that_has_nothing_is_the_suspect(tmp_path: Path) -> None:
    assert culprit(tmp_path, {0: counts(0, 128, 1, 0), 1: counts(1, 0, 0, 128)}).ranks == (1,)


def test_the_one_that_still_waits_when_all_others_are_done_had_more_to_do(tmp_path: Path) -> None:
    logs = {0: raised(0, CLOSED), **{rank: f"[rank{rank}]: training finished\n" for rank in range(1, 4)}}
    many, two = tmp_path / "many", tmp_path / "two"
    many.mkdir()
    two.mkdir()
    assert culprit(many, logs, agent=failed(0, 1)).ranks == (0,)
    assert culprit(two, {rank: logs[rank] for rank in (0, 1)}).ranks != (0,)


def test_a_signal_that_the_launcher_does_not_send_ended_the_first_one(tmp_path: Path) -> None:
    closing = "".join(
        f"W1126 21:45:15.79{rank}000 19056 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process "
        f"{19498 + rank} closing signal SIGTERM\n"
        for rank in (1, 2, 3)
    )
    logs = {rank: raised(rank, CLOSED) for rank in (1, 3)}
    logs |= {0: raised(0, "KeyboardInterrupt"), 2: "loading\n"}
    table = "\nFailures:\n[1]:\n  time      : 2026-11-26_21:45:15\n  host      : n0\n  rank      : 0 (local_rank: 0)\n" \
            "  exitcode  : -2 (pid: 19498)\n  error_file: <N/A>\n  traceback : Signal 2 (SIGINT) received by PID 19498\n"  # fmt: skip
    assert culprit(tmp_path, logs, agent=closing + failed(1, -15) + table).ranks == (0,)


@pytest.mark.parametrize(("sizes", "named"), [((513, 513), (1,)), ((513, 99), ())])
def test_a_watchdog_that_waits_for_a_later_call_has_seen_the_earlier_ones_end(
    tmp_path: Path, sizes: tuple[int, int], named: tuple[int, ...]
) -> None:
    """Lines of watchdogs do not name their group: numbers of calls of other sizes may be those of another one."""
    text = "".join(
        f"[rank{rank}]:[E513 13:25:57.71478166{rank} ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation"
        f" timeout: WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, NumelIn={sizes[rank == 1]}, NumelOut={sizes[rank == 1]}, Timeout(ms)=1800000) ran for"
        " 1800042 milliseconds before timing out.\n"
        for rank, number in ((0, 61), (1, 59), (2, 61), (3, 61))
    )
    (tmp_path / "run.log").write_text(text)
    incident = diagnose([str(tmp_path)]).incident
    assert incident is not None
    assert incident.culprit.ranks == named


def test_who_cannot_reach_a_store_that_others_reach_did_not_come(tmp_path: Path) -> None:
    says = {
        0: "torch.distributed.DistStoreError: Timed out after 10 seconds waiting for clients. 3/4 clients joined.",
        1: "torch.distributed.DistStoreError: wait timeout after 9000ms, keys: /default_pg/0//cpu//0/0",
        2: "torch.distributed.DistStoreError: wait timeout after 9000ms, keys: /default_pg/0//cpu//0/0",
        3: "torch.distributed.DistNetworkError: The client socket has timed out after 9000ms while trying to connect to "
        "(127.0.0.1, 42311).",
    }
    assert culprit(tmp_path, {rank: raised(rank, text) for rank, text in says.items()}).ranks == (3,)
    del says[3]  # of which nothing is there then
    (tmp_path / "worker_rank3.log").unlink()
    assert culprit(tmp_path, {rank: raised(rank, text) for rank, text in says.items()}).ranks == (3,)
