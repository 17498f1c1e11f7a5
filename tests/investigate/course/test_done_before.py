"""What stands behind the word of a run that it is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose

_STEPS = "".join(
    f"2026-02-11 09:00:{step:02d},000 - trainer - INFO - epoch {step} loss {1 / (step + 1):.4f}\n" for step in range(30)
)
_DONE = "2026-02-11 09:01:00,000 - trainer - INFO - Training finished in 60 s\n"
_BUILDS = "building the model\n"
_ASKED = "2026-02-11 09:30:00,000 - metrics - INFO - received SIGTERM, shutting down the metrics server\n"
_UNTOLD = "2026-02-11 09:01:02,000 - notifier - ERROR - Could not send the mail: [Errno 111] Connection refused\n"
_CAUGHT = """\
2026-02-11 09:01:02,000 - notifier - ERROR - could not send the message
Traceback (most recent call last):
  File "/job/notify.py", line 12, in send
    post(url, json=body, timeout=3)
  File "/job/web.py", line 115, in post
    raise ConnectionError(url)
ConnectionError: nobody answers at hooks.example
"""
_OF_MEMORY = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
_SAVED = "2026-02-11 09:01:09,000 - trainer - INFO - the table is at out/table.csv\n"
_TESTS = """\
2026-02-11 09:01:02,000 - trainer - INFO - reading what is to be tested
Traceback (most recent call last):
  File "/job/score.py", line 12, in test
    rows = read(path)
FileNotFoundError: [Errno 2] No such file or directory: '/data/test.csv'
"""
_OF_HYDRA = """\
Error executing job with overrides: ['size=small']
Traceback (most recent call last):
  File "/job/train.py", line 31, in main
    test(model)
KeyError: 'acc5'

Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.
"""
_UNCAUGHT = """\
Traceback (most recent call last):
  File "/job/train.py", line 130, in <module>
    evaluate(model)
  File "/job/train.py", line 90, in evaluate
    print(found['acc5'])
KeyError: 'acc5'
"""
_OF_NATIVE_CODE = "terminate called after throwing an instance of 'std::runtime_error'\n  what():  bad state\n"
_ATEXIT = """\
Error in atexit._run_exitfuncs:
Traceback (most recent call last):
  File "/usr/lib/python3.10/logging/__init__.py", line 1100, in emit
    stream.write(msg + self.terminator)
ValueError: I/O operation on closed file.
"""


@pytest.mark.parametrize(
    ("behind", "well"),
    [
        (_DONE + _ASKED, True),
        (_DONE + _UNTOLD, True),
        (_DONE + _CAUGHT + _SAVED, True),
        (_DONE + "^C\n", True),
        ("^C\n", False),
        (_DONE + _CAUGHT.replace("ConnectionError: nobody answers at hooks.example", _OF_MEMORY) + _SAVED, False),
        (_CAUGHT + ">>> Pipeline finished.\n", False),  # which what runs the steps says of whatever they did
        (_UNCAUGHT + "Pipeline complete!\n", False),
        (_DONE + _TESTS + "giving up\n", False),
        (_DONE + _TESTS + "Results saved to out/scores.csv\n", True),
        (_DONE + _CAUGHT, False),  # it may have ended of it
        (_DONE + _OF_HYDRA, False),
        (_ATEXIT, True),
        (_ASKED, False),  # before it was done
        (_UNTOLD, False),
        (_CAUGHT, False),
        (_DONE + _UNCAUGHT, False),  # the program did more, and ended of that
        (_DONE + _STEPS + _ASKED, False),  # another training, which was asked to end
        (_DONE + _CAUGHT + _SAVED + "srun: error: node1: task 0: Exited with exit code 1\n", False),
        (_CAUGHT + "the job is done\n", False),  # which its script says of whatever it ran
        (_DONE + "Aborted\n", True),  # what a library does as it is unloaded
        (_DONE + "Abortado\n", True),
        (_DONE + "terminate called without an active exception\nAborted (core dumped)\n", True),
        (_DONE + _OF_NATIVE_CODE + "Aborted (core dumped)\n", True),
        (_DONE + _OF_NATIVE_CODE.replace("bad state", "CUDA error: unspecified launch failure") + "Aborted\n", False),
        (_DONE + "Segmentation fault (core dumped)\n", False),
        (_DONE + _STEPS + "Aborted\n", False),  # another training
        (_DONE + _BUILDS * 30 + "Aborted (core dumped)\n", False),  # it did more, and not as it was unloaded
        (_DONE + _BUILDS * 30 + _OF_NATIVE_CODE + "run.sh: line 3:  42 Aborted    python train.py\n", False),
        (_DONE + "srun: error: node1: task 0: Aborted\n", False),
        ("Aborted\n", False),
        (_DONE + "run.sh: line 30:  4242 Terminated              tail -f run.log\n", True),
        ("run.sh: line 30:  4242 Terminated              python train.py\n", False),
    ],
)
def test_what_is_told_behind_the_end_ended_nothing(tmp_path: Path, behind: str, well: bool) -> None:
    (tmp_path / "run.log").write_text(_STEPS + behind)
    assert (diagnose(tmp_path).incident.category == "none") is well


def test_a_pipeline_that_is_through_may_be_a_part_of_what_is_run(tmp_path: Path) -> None:
    for behind, state in ((_BUILDS * 2, "ended"), (_BUILDS * 8, "unknown"), (_BUILDS + _ASKED, "crashed")):
        (tmp_path / "run.log").write_text("reading\n>>> Pipeline complete.\n" + behind)
        assert diagnose(tmp_path).incident.state == state


def test_an_agent_that_is_told_to_end_behind_the_end_stopped_nothing(tmp_path: Path) -> None:
    closes = "W0211 09:02:00.000000 4411 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 4412 closing signal SIGTERM\n"
    died = "E0211 09:02:01.000000 4411 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 1 (pid: 4413) of binary: python\n"
    for behind, well in ((closes, True), (closes + died, False)):
        (tmp_path / "run.log").write_text(_STEPS + _DONE + behind)
        incident = diagnose(tmp_path).incident
        assert incident is not None
        assert (incident.category in ("none", "cannot-tell")) == well
