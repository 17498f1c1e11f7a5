"""Kernel logs and scheduler records beside the logs of the ranks: they name the culprit that the logs do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident

CARDS = ("1b", "3b", "4e", "9b")
JOINS = "n1:{pid}:{pid} [{local}] NCCL INFO ncclCommInitRank comm 0x5 rank {rank} nranks 8 cudaDev {local} nvmlDev {local} busId {card}000 commId 0x1 - Init START"
TIMEOUT = (
    "[rank{rank}]:[E923 06:58:05.123456789 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=812, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=180000) ran for 180012 milliseconds before timing out."
)
BOOT = "[Tue Sep 23 05:00:00 2025] Linux version 5.15.0\n"


def job(folder: Path, extra: dict[str, str], silent: int) -> Incident:
    """Write the logs of eight ranks on two nodes, of which all but one wait until the watchdog ends them."""
    for rank in range(8):
        node, local = f"n{rank // 4 + 1}", rank % 4
        lines = [
            f"2025-09-23 06:{minute:02d}:00,000 [INFO] step {minute} loss {3 - minute / 50:.3f}"
            for minute in range(30, 55)
        ]
        lines.insert(
            0, JOINS.format(pid=4000 + rank, rank=rank, local=local, card=CARDS[local]).replace("n1:", f"{node}:")
        )
        if rank != silent:
            lines.append(TIMEOUT.format(rank=rank))
        path = folder / node / f"rank_{rank}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
    for name, text in extra.items():
        (folder / name).write_text(text)
    report = diagnose([str(folder)])
    assert report.incident is not None
    return report.incident


def test_a_card_that_fell_off_the_bus_names_its_rank(tmp_path: Path) -> None:
    xid = "[Tue Sep 23 06:55:02 2025] NVRM: Xid (PCI:0000:4e:00): 79, pid=4006, name=python, GPU has fallen off the bus.\n"
    incident = job(tmp_path, {"n2/dmesg.txt": BOOT + xid}, silent=6)
    assert incident.culprit.ranks == (6,)
    assert incident.category == "hardware"


def test_a_process_that_the_kernel_killed_names_its_rank(tmp_path: Path) -> None:
    kill = (
        "[Tue Sep 23 06:55:01 2025] oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/job_7,task_memcg=/job_7/step_0,task=python,pid=4001,uid=0\n"
        "[Tue Sep 23 06:55:01 2025] Memory cgroup out of memory: Killed process 4001 (python) total-vm:2120000kB, anon-rss:1720320kB\n"
    )
    incident = job(tmp_path, {"n1/dmesg.txt": BOOT + kill}, silent=1)
    assert incident.culprit.ranks == (1,)
    assert incident.category == "oom"


def test_errors_that_were_corrected_name_nobody(tmp_path: Path) -> None:
    noise = "[Tue Sep 23 06:20:00 2025] pcieport 0000:00:01.1: AER: Corrected error received: 0000:3b:00.0\n" * 20
    incident = job(tmp_path, {"n2/dmesg.txt": BOOT + noise}, silent=6)
    assert 5 not in incident.culprit.ranks
    assert incident.category != "hardware"


@pytest.mark.parametrize(("state", "category"), [("OUT_OF_MEMORY", "oom"), ("TIMEOUT", "preemption")])
def test_the_scheduler_s_word_decides_the_category(tmp_path: Path, state: str, category: str) -> None:
    table = f"JobID|State|ExitCode|End|NodeList\n77.0|{state}|0:9|2025-09-23T06:55:04|n2\n"
    incident = job(tmp_path, {"sacct.txt": table}, silent=6)
    assert incident.category == category
