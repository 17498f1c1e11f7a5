"""Stacks that programs print into their own logs: where each rank stood when the others waited in vain."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose

TIMED_OUT = "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation to complete"
CLOSED = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:6053"
WAITING = (
    '  File "/opt/venv/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py", line 3252 in all_reduce\n'
    '  File "/job/train.py", line 40 in reduce\n  File "/job/train.py", line 90 in main\n'
)
READING = '  File "/job/cache.py", line 12 in read\n  File "/job/train.py", line 31 in main\n'


def log(rank: int, *, stands: str, says: str, later: int = 0) -> str:
    steps = "train.py: 4 ranks\n" + "".join(
        f"[rank{rank}]: step {step}: loss {5.5 - step / 100:.4f}\n" for step in range(1, 6)
    )
    behind = "".join(f"[rank{rank}]: step {step}: loss {5.5 - step / 100:.4f}\n" for step in range(6, 6 + later))
    stack = f'Timeout (0:00:11)!\nThread 0x00007f1ab2672b80 (most recent call first):\n{stands}  File "/job/train.py", line 99 in <module>\n'
    raised = (
        f"[rank{rank}]: Traceback (most recent call last):\n"
        f'[rank{rank}]:   File "/job/train.py", line 40, in reduce\n[rank{rank}]: RuntimeError: {says}\n'
    )
    return steps + stack + behind + raised


@pytest.mark.parametrize(("later", "culprit"), [(0, (1,)), (3, ())])
def test_the_rank_that_stood_outside_of_the_call_is_named(tmp_path: Path, later: int, culprit: tuple[int, ...]) -> None:
    for rank in range(4):
        stands = READING if rank == 1 else WAITING
        says = CLOSED if rank in (1, 2) else TIMED_OUT
        (tmp_path / f"worker_rank{rank}.log").write_text(log(rank, stands=stands, says=says, later=later))
    incident = diagnose([str(tmp_path)]).incident
    assert incident.culprit.ranks == culprit
    said = [reason.text for reason in incident.culprit.reasons]
    assert any("in no collective" in text for text in said) is (later == 0)


@pytest.mark.parametrize(("stands", "culprit"), [(READING, (1,)), (WAITING, ())])
def test_one_rank_alone_that_printed_its_stack(tmp_path: Path, stands: str, culprit: tuple[int, ...]) -> None:
    for rank in range(4):
        text = log(rank, stands=stands, says=CLOSED if rank in (1, 2) else TIMED_OUT)
        if rank != 1:
            text = "".join(
                line for line in text.splitlines(True) if not line.startswith(("Timeout", "Thread", "  File"))
            )
        (tmp_path / f"worker_rank{rank}.log").write_text(text)
    incident = diagnose([str(tmp_path)]).incident
    assert incident.culprit.ranks == culprit
    assert any("cache.py:12" in reason.text for reason in incident.culprit.reasons) is bool(culprit)


@pytest.mark.parametrize(("behind", "state"), [("", "hung"), ("[rank2]: step 6: loss 5.44\n", "running")])
def test_a_run_whose_ranks_printed_their_stacks_and_nothing_else_hangs(tmp_path: Path, behind: str, state: str) -> None:
    for rank in range(4):
        text = log(rank, stands=READING if rank == 1 else WAITING, says=CLOSED)
        text = text[: text.index(f"[rank{rank}]: Traceback")]
        (tmp_path / f"worker_rank{rank}.log").write_text(text + (behind if rank == 2 else ""))
    incident = diagnose([str(tmp_path)]).incident
    assert incident.state == state
    assert incident.culprit.ranks == ((1,) if state == "hung" else ())
