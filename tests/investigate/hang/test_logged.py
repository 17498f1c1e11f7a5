from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.hang.judge import judge
from preflight.investigate.hang.look import look_in

WAITS = """Timeout (0:05:00)!
Thread 0x00007fe73ad85{rank}c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Thread 0x00007fe73b7f9{rank}80 (most recent call first):
  File "/x/site-packages/torch/distributed/distributed_c10d.py", line 2806 in all_reduce
  File "/job/train.py", line 26 in train_step
  File "/job/train.py", line 44 in <module>
"""
LOADS = WAITS.replace(
    '"/x/site-packages/torch/distributed/distributed_c10d.py", line 2806 in all_reduce',
    '"/job/train.py", line 18 in load',
)


def text_of(rank: int, guilty: int) -> str:
    return "step 1 loss 2.0\n" * 40 + (LOADS if rank == guilty else WAITS).format(rank=rank) + "still waiting\n"


def test_stacks_in_the_logs_of_the_ranks_are_read(tmp_path: Path) -> None:
    for rank in range(4):
        (tmp_path / f"rank_{rank}.log").write_text(text_of(rank, 2))
    seen = look_in([str(tmp_path)])
    assert {stack.who.rank for stack in seen.stacks} == {0, 1, 2, 3}
    assert judge(seen).incident.culprit.ranks == (2,)


@pytest.mark.parametrize("label", ["[rank{}]: ", "{}: "])
def test_ranks_that_write_one_file_are_told_apart_by_their_labels(tmp_path: Path, label: str) -> None:
    lines = [text_of(rank, 1).splitlines() for rank in range(4)]
    mixed = [label.format(rank) + line for row in zip(*lines, strict=True) for rank, line in enumerate(row)]
    (tmp_path / "job.log").write_text("\n".join(mixed) + "\n")
    seen = look_in([str(tmp_path / "job.log")])
    assert judge(seen).incident.culprit.ranks == (1,)
