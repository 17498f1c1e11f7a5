"""What is said of files that stand alone: tables of schedulers and cards, NCCL's RAS, metrics, a packed log that is cut off."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident

SACCT = (
    "JobID|JobName|State|ExitCode|Start|End|NodeList|MaxRSS\n"
    "1234|pretrain|{state}|{code}|2026-11-20T08:00:00|2026-11-20T10:00:00|gpu[01-02]|\n"
)
RAS = """\
NCCL version 2.27.3 compiled with CUDA 12.9

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4         8        32        32   RUNNING  INCOMPLETE

Errors
======

#0-0 (27a079b828ff1a75) INCOMPLETE
  Missing communicator data from 1 job process
  Process 3487984 on node 172.16.64.213 managing GPU 5
"""
HOT = """\
==============NVSMI LOG==============

Timestamp                                 : Fri Nov 20 10:05:00 2026
Driver Version                            : 550.54.15

Attached GPUs                             : 1
GPU 00000000:3B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Clocks Event Reasons
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
    Temperature
        GPU Current Temp                  : 92 C
"""


def told(folder: Path, name: str, content: str | bytes) -> Incident:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    incident = diagnose(path).incident
    assert incident is not None
    return incident


@pytest.mark.parametrize(
    ("state", "code", "category", "cause", "advice"),
    [
        ("TIMEOUT", "0:0", "preemption", "time-limit", "Ask for more time"),
        ("OUT_OF_MEMORY", "0:125", "oom", "cgroup-limit", "Ask for more memory"),
        ("PREEMPTED", "0:15", "preemption", "preempted", ""),
        ("NODE_FAIL", "1:0", "hardware", "node-lost", ""),
    ],
)
def test_a_state_in_a_table_is_answered_as_the_line_that_says_the_same(
    state: str, code: str, category: str, cause: str, advice: str, tmp_path: Path
) -> None:
    incident = told(tmp_path, "sacct.txt", SACCT.format(state=state, code=code))
    assert (incident.category, incident.onset) == (category, None)  # no table tells at which step it was
    assert incident.hypotheses[0].cause == cause
    assert any(advice in one.text for one in incident.next if one.kind == "act")
    assert incident.remedies
    assert not any("125" in one.text for one in incident.timeline)  # Slurm's word for memory is no signal


def test_the_process_that_ras_names_is_the_culprit_with_its_node(tmp_path: Path) -> None:
    incident = told(tmp_path, "ras.txt", RAS)
    assert incident.culprit.nodes == ("172.16.64.213",)
    assert "3487984" in incident.culprit.reasons[0].text
    assert incident.state == "unknown"  # it answers, so something runs
    assert any("ps -p PID" in one.text for one in incident.next)


def test_the_rank_is_the_one_of_the_card_that_ras_names(tmp_path: Path) -> None:
    for rank in range(16):
        node = "172.16.64.213" if rank >= 8 else "172.16.64.210"
        (tmp_path / f"rank_{rank}.log").write_text(
            f"{node}:{100 + rank}:{200 + rank} [{rank % 8}] NCCL INFO comm 0x{rank:x}1 rank {rank} nranks 16 cudaDev {rank % 8} "
            f"nvmlDev {rank % 8} busId {rank % 8 + 1}000 commId 0x1 - Init COMPLETE\n"
        )
    (tmp_path / "ras.txt").write_text(RAS)
    incident = diagnose(tmp_path).incident
    assert incident is not None
    assert incident.culprit.ranks == (13,)


def test_a_hot_card_is_trouble_and_nothing_crashed(tmp_path: Path) -> None:
    incident = told(tmp_path, "nvidia-smi-q.txt", HOT)
    assert (incident.category, incident.state, incident.onset) == ("hardware", "unknown", None)
    assert not any("log of every rank" in one.text for one in incident.next)


def test_metrics_that_go_wrong_are_of_a_run_that_goes_on(tmp_path: Path) -> None:
    rows = [{"step": step, "loss": 3 - 0.01 * step if step < 150 else float("nan")} for step in range(300)]
    incident = told(tmp_path, "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert (incident.category, incident.state, incident.onset) == ("numerical", "running", "running")
    assert incident.five_whys[0].question == "Why did the run fail?"


def test_a_packed_log_that_is_cut_off_is_not_called_healthy(tmp_path: Path) -> None:
    lines = "".join(
        f"2026-11-20 10:{step // 60:02}:{step % 60:02},000 INFO step {step} loss {3 - step / 4000:.6f}\n"
        for step in range(3000)
    )
    packed = gzip.compress(lines.encode())
    whole, cut = told(tmp_path, "whole.log.gz", packed), told(tmp_path, "cut.log.gz", packed[: len(packed) // 2])
    assert (whole.state, whole.category) == ("running", "none")
    assert (cut.state, cut.category) == ("unknown", "cannot-tell")
    assert "cut.log.gz" in (cut.reason or "")
    assert cut.headline.startswith("nothing failed up to step ")
