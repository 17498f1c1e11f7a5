"""What one of very many ranks does otherwise than the others is not drowned in their number."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from preflight import diagnose
from preflight.vocabulary.incident import Incident

Judge = Callable[..., Incident]
RANKS = 96


@pytest.fixture
def incident_of(tmp_path: Path) -> Judge:
    def investigated(**texts: str) -> Incident:
        for name, text in texts.items():
            (tmp_path / f"{name}.log").write_text(text)
        incident = diagnose([str(tmp_path)]).incident
        assert incident is not None
        return incident

    return investigated


def watchdog(rank: int, name: str, group: bool = True) -> str:
    work = f"WorkNCCL(SeqNum=77, OpType={name}, NumelIn=512, NumelOut=512, Timeout(ms)=600000)"
    head = f"[rank{rank}]:[E1120 10:20:00.12 ProcessGroupNCCL.cpp:"
    of = f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}] " if group else ""
    return (
        f"{head}685] [Rank {rank}] Watchdog caught collective operation timeout: {work} ran for 600007 milliseconds before timing out.\n"
        f"{head}2252] {of} failure detected by watchdog at work sequence id: 77 PG status: last enqueued work: 77, last completed work: 76\n"
    )


@pytest.mark.parametrize("odd", [0, 41, RANKS - 1])
def test_one_of_many_that_makes_another_call_is_named(incident_of: Judge, odd: int) -> None:
    text = "".join(watchdog(rank, "BROADCAST" if rank == odd else "ALLREDUCE") for rank in range(RANKS))
    found = incident_of(job=text)
    assert found.culprit.ranks == (odd,)
    assert found.category == "usercode"


def test_calls_of_which_no_line_names_the_group_do_not_tell_that_the_program_is_wrong(incident_of: Judge) -> None:
    text = "".join(watchdog(rank, "BROADCAST" if rank == 41 else "ALLREDUCE", group=False) for rank in range(RANKS))
    assert incident_of(job=text).category == "network"


def test_a_kernel_log_of_a_host_with_a_number_is_about_no_rank_that_does_not_exist(incident_of: Judge) -> None:
    steps = {f"gpu{node:03d}": "".join(f"[default{local}]:step {step} loss 2.{step}\n" for step in range(9) for local in range(4))
             for node in range(4)}  # fmt: skip
    died = "[default2]:[rank14]: RuntimeError: CUDA error: unspecified launch failure\n"
    steps["gpu003"] += died
    steps["gpu003.kern"] = (
        "2026-01-05T10:00:00.000000+00:00 gpu003 kernel: NVRM: Xid (PCI:0000:5d:00): 79, pid=4012, name=python, "
        "GPU has fallen off the bus.\n"
    )
    found = incident_of(**steps)
    assert set(found.culprit.ranks) <= set(range(16))
    assert all(rank is None or rank < 16 for moment in found.timeline for rank in (*moment.ranks, moment.rank))


def stepped(rank: int, step: int, compute: float, whole: float) -> str:
    minute, second = divmod(int(step * 1.5), 60)
    return (
        f"2026-01-05 10:{minute:02d}:{second:02d},000 INFO [Rank {rank}] step {step}/1000 loss 2.{900 - step} "
        f"compute_time {compute:.4f}s step_time {whole:.4f}s\n"
    )


@pytest.mark.parametrize("slower", [1.4, 1.0])
def test_the_rank_that_alone_made_all_slower_is_the_culprit(incident_of: Judge, slower: float) -> None:
    draw = random.Random(7)
    own = {(rank, step): draw.gauss(1.0, 0.01) * (slower if rank == 9 and step > 60 else 1.0)
           for rank in range(24) for step in range(1, 161)}  # fmt: skip
    longest = [max(own[rank, step] for rank in range(24)) + 0.1 for step in range(1, 161)]
    found = incident_of(
        job="".join(
            stepped(rank, step, own[rank, step], longest[step - 1]) for step in range(1, 161) for rank in range(24)
        )
    )
    assert found.culprit.ranks == ((9,) if slower > 1 else ())
    assert found.state == ("slow" if slower > 1 else "running")
    assert (found.category == "none") == (slower == 1.0)


def test_the_one_of_many_that_did_not_come_to_the_store_is_named(incident_of: Judge) -> None:
    lines = "".join(f"[rank{rank}]: starting on 24 ranks\n" for rank in range(24))
    lines += "".join(
        f'[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]:   File "/job/train.py", line 9, in <module>\n'
        f"[rank{rank}]:     main()\n[rank{rank}]: torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. "
        "23/24 clients joined.\n"
        for rank in range(24)
        if rank != 17
    )
    assert incident_of(job=lines).culprit.ranks == (17,)
