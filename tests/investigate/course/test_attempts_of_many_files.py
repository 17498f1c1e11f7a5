"""The starts of a job in the logs of many ranks: all steps are not gone through for each file, and each start is judged alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from preflight.investigate.case.case import Case
from preflight.investigate.course.attempts import Cuts
from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.log import Frame, Hit, LogFile, Raised, Reading, StepLine, Who


class Walked(tuple[Any, ...]):
    """Counts how often it is gone through."""

    times = 0

    def __iter__(self) -> Iterator[Any]:
        type(self).times += 1
        return super().__iter__()


def _walks(monkeypatch: pytest.MonkeyPatch, ranks: int) -> int:
    monkeypatch.setattr(Walked, "times", 0)
    frame = Frame("train.py", 3, "<module>")
    raised = [
        Raised(
            exception="ValueError",
            message="no",
            frames=(frame,),
            hit=Hit(signature="", file=rank, line=line, offset=0, text="ValueError: no"),
            begins=line - 2,
        )
        for rank in range(ranks)
        for line in (10, 30)
    ]
    reading = Reading(
        files=tuple(
            LogFile(index=rank, path=f"rank{rank}.log", kind="text", who=Who(rank=rank), layout="rank-files")
            for rank in range(ranks)
        ),
        raised=tuple(raised),
        steps=Walked(
            StepLine(file=rank, line=line, step=line, values={}) for rank in range(ranks) for line in (20, 21, 40, 41)
        ),
    )
    assert Cuts(Case(reading, {})).lines == {rank: [11, 31] for rank in range(ranks)}
    return Walked.times


def test_steps_are_not_gone_through_again_for_each_rank_that_died(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _walks(monkeypatch, 2) == _walks(monkeypatch, 20)


_RAN = "".join(f"step {step} loss 2.0\n" for step in range(1, 9))
_DIED = """\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    main()
ModuleNotFoundError: No module named 'labkit'
"""
_NO_NUMBER = """\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    main()
FloatingPointError: the loss is nan
step 9 loss 2.0
"""


@pytest.mark.parametrize("last", [_NO_NUMBER, _NO_NUMBER.replace("the loss is nan", "no finite scale")])
@pytest.mark.parametrize("before", ["", _RAN + _DIED])
def test_a_bar_drawn_once_more_mends_no_exception_of_any_start(tmp_path: Path, before: str, last: str) -> None:
    log = tmp_path / "run.log"
    log.write_text(before + _RAN + last, encoding="utf-8")
    incident = diagnose([log]).incident
    assert incident is not None
    assert len(incident.attempts) == (2 if before else 1)
    assert incident.category == "numerical"


@pytest.mark.parametrize(
    ("behind", "category"),
    [("step 8 loss 2.0\n", "numerical"), ("step 9 loss 2.0\n", "none"), ("step 8 loss 2.0\n" * 3, "none")],
)
def test_the_step_that_a_bar_draws_once_more_is_no_later_one(tmp_path: Path, behind: str, category: str) -> None:
    log = tmp_path / "run.log"
    log.write_text(_RAN + "Loss is nan, stopping training\n" + behind, encoding="utf-8")
    incident = diagnose([log]).incident
    assert incident is not None
    assert incident.category == category


_LAUNCHED = """\
W0101 10:00:00.000000 {pid} torch/distributed/run.py:793] Setting OMP_NUM_THREADS environment variable for each process to be 1
Num examples = 1000
step 1 loss 2.0
"""
_GAVE_UP = """\
Traceback (most recent call last):
  File "/usr/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
Root Cause (first observed failure):
[0]:
  time      : 2025-01-01_10:01:00
  host      : nodea
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 200)
  error_file: <N/A>
============================================================
"""


def test_how_the_workers_of_a_start_ended_is_told_of_no_later_one(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    last = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    log.write_text(_LAUNCHED.format(pid=11) + _GAVE_UP + _LAUNCHED.format(pid=12) + last, encoding="utf-8")
    incident = diagnose([log]).incident
    assert incident is not None
    assert len(incident.attempts) == 2
    assert incident.category == "oom"
    assert incident.culprit is not None
    assert [reason.text for reason in incident.culprit.reasons if "exit" in reason.text] == []


def test_a_start_that_runs_behind_one_that_failed_is_well(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(_LAUNCHED.format(pid=11) + _GAVE_UP + _LAUNCHED.format(pid=12) + _RAN, encoding="utf-8")
    incident = diagnose([log]).incident
    assert incident is not None
    assert (incident.state, incident.category) == ("running", "none")
