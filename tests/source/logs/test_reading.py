"""Folders of logs, read from end to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.source.logs import read_logs
from preflight.vocabulary.log import Reading, Who

RANK_0 = """\
2024-01-01 12:00:00,000 INFO world_size=2
2024-01-01 12:00:01,000 INFO step: 1 loss: 2.3
2024-01-01 12:00:02,000 INFO step: 2 loss: 2.2
[rank0]:[E101 12:10:02.123456789 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: \
WorkNCCL(SeqNum=17, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.
"""
RANK_1 = """\
2024-01-01 12:00:01,000 INFO step: 1 loss: 2.3
[rank1]: Traceback (most recent call last):
[rank1]:   File "/app/train.py", line 12, in <module>
[rank1]:     main()
[rank1]:   File "/app/train.py", line 8, in main
[rank1]:     x = model(y)
[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.15 GiB \
of which 1.00 GiB is free.
"""
AGENT = """\
E0101 12:00:05.000000 100 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 1 \
(pid: 201) of binary: /usr/bin/python
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2024-01-01_12:00:04
  host      : nodeA
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 201)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


@pytest.fixture
def torchrun(tmp_path: Path) -> Reading:
    for rank, text in enumerate((RANK_0, RANK_1)):
        folder = tmp_path / "run" / "none_abc" / "attempt_0" / str(rank)
        folder.mkdir(parents=True)
        (folder / "stderr.log").write_text(text)
        (folder / "stdout.log").write_text("")
    (tmp_path / "run" / "agent.log").write_text(AGENT)
    return read_logs([tmp_path / "run"])


def test_files_of_torchrun_are_those_of_their_ranks(torchrun: Reading) -> None:
    logs = [file for file in torchrun.files if file.path.endswith("stderr.log")]
    assert [file.who for file in logs] == [Who(0, None, 0, 0), Who(1, None, 1, 0)]
    assert {file.layout for file in logs} == {"torchrun"}
    assert [file.index for file in torchrun.files] == list(range(5))
    assert [file.kind for file in torchrun.files if file.path.endswith("stdout.log")] == ["empty", "empty"]
    assert torchrun.world_size == 2
    assert torchrun.lines_read == sum(text.count("\n") for text in (RANK_0, RANK_1, AGENT))


def test_hits_say_who_and_when_and_what(torchrun: Reading) -> None:
    found = {hit.signature: hit for hit in torchrun.hits}
    memory = found["oom.cuda-allocation"]
    assert memory.who.rank == 1
    assert memory.line == 7
    assert memory.fields["wanted"] == 2 << 30
    assert found["network.watchdog-timeout"].who.rank == 0


def test_a_traceback_is_read_from_the_lines_of_its_rank(torchrun: Reading) -> None:
    (raised,) = torchrun.raised
    assert raised.exception == "torch.OutOfMemoryError"
    assert raised.message.startswith("CUDA out of memory.")
    assert [(frame.line, frame.function) for frame in raised.frames] == [(12, "<module>"), (8, "main")]
    assert raised.hit.signature == "oom.cuda-allocation"
    assert raised.hit.line == 7


def test_the_agent_tells_how_a_worker_ended(torchrun: Reading) -> None:
    assert {
        (one.about.rank, one.about.local_rank, one.about.pid, one.code, one.teller) for one in torchrun.endings
    } == {(1, 1, 201, 1, "torchrun")}
    assert {one.about.node for one in torchrun.endings} == {"nodeA"}


def test_steps_are_read(torchrun: Reading) -> None:
    assert [(one.who.rank, one.step, one.values["loss"]) for one in torchrun.steps] == [
        (0, 1, 2.3),
        (0, 2, 2.2),
        (1, 1, 2.3),
    ]
