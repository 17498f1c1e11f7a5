"""Failures behind which a script ran on, or the program was started again, in logs that count no steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident

_DIED = """\
2026-02-11 09:00:00,000 - test - INFO - reading the scans
Traceback (most recent call last):
  File "/job/test.py", line 146, in <module>
    main()
  File "/job/test.py", line 142, in main
    read(path)
FileNotFoundError: [Errno 2] No such file or directory: '/data/scans/000000.png'
"""
_SERVED = """\
Traceback (most recent call last):
  File "/env/lib/python3.9/multiprocessing/resource_sharer.py", line 138, in _serve
    with self._listener.accept() as conn:
  File "/env/lib/python3.9/multiprocessing/connection.py", line 465, in accept
    deliver_challenge(c, self._authkey)
ConnectionResetError: [Errno 104] Connection reset by peer
"""
_LONG = (
    "a line of a scan that was read, of which nothing else is to be told than that it is there and how large it is\n"
)


def told(folder: Path, text: str) -> Incident:
    (folder / "run.log").write_text(text)
    incident = diagnose(folder).incident
    assert incident is not None
    return incident


def scored(count: int, minute: int, of: int = 100) -> str:
    """Return lines of so many scans, of which so many take a minute."""
    return "".join(
        f"2026-02-11 09:{minute + at // of:02d}:{at % of % 60:02d},000 - test - INFO - scan {at} {_LONG}"
        for at in range(count)
    )


def saved(minute: int) -> str:
    return f"2026-02-11 09:{minute:02d}:59,000 - test - INFO - Results saved to /job/scans.csv\n"


@pytest.mark.parametrize(
    ("behind", "category"),
    [
        (scored(300, 30) + saved(40), "none"),
        (scored(30, 30) + saved(40), "data"),  # a few lines are what waited in a buffer
        (scored(300, 0, of=1000) + saved(0), "data"),  # within the minute in which it failed
        (_LONG * 300, "data"),  # nothing tells when it was said: it may be the rest of a message
        (scored(300, 30) + saved(40) + _DIED.replace("09:00", "09:50"), "data"),  # it failed again
        (scored(300, 30) + saved(40) + "srun: error: node1: task 0: Exited with exit code 1\n", "data"),
    ],
)
def test_what_is_said_for_long_behind_a_failure_is_of_what_ran_on(tmp_path: Path, behind: str, category: str) -> None:
    assert told(tmp_path, _DIED + behind).category == category


def test_where_steps_are_counted_they_tell_whether_a_run_went_on(tmp_path: Path) -> None:
    steps = "".join(
        f"2026-02-11 08:59:{step:02d},000 - test - INFO - step {step} loss {2 - step / 100:.3f}\n" for step in range(50)
    )
    assert told(tmp_path, steps + _DIED + scored(300, 30) + saved(40)).category == "data"


def test_nohup_starts_a_program_anew(tmp_path: Path) -> None:
    started = "nohup: ignoring input\n2026-02-11 09:10:00,000 - test - INFO - reading the scans\n" + scored(45, 10)
    assert told(tmp_path, "nohup: ignoring input\n" + _DIED + started).category == "none"
    assert told(tmp_path, "nohup: ignoring input\n" + _DIED + scored(45, 10)).category == "data"


def test_a_thread_that_serves_what_processes_share_printed_what_it_caught(tmp_path: Path) -> None:
    epochs = "".join(
        f"[2026-02-11 10:00:{at:02d},000][train][INFO] - Epoch {at}/90, Val Acc=0.6{at}\n" for at in range(40)
    )
    failed = "Traceback (most recent call last):\n  File \"/job/train.py\", line 3, in <module>\n    main()\nKeyError: 'acc5'\n"
    assert told(tmp_path, epochs + failed + _SERVED).category == "usercode"
    assert told(tmp_path, epochs + _SERVED).category != "none"  # its partner may have died


_HEAD = """\
rank 0: bind to device 0
rank 0: the processes have found each other
rank 0: the target model is there
rank 0: the draft model is there
"""
_ASKED = """\
W0729 12:02:35.460000 3816713 site-packages/torch/distributed/elastic/agent/server/api.py:719] Received 15 death signal, shutting down workers
Traceback (most recent call last):
  File "/opt/conda/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/opt/conda/lib/python3.12/site-packages/torch/distributed/elastic/multiprocessing/api.py", line 84, in _terminate_process_handler
    raise SignalException(f"Process {os.getpid()} got signal: {sigval}", sigval=sigval)
torch.distributed.elastic.multiprocessing.api.SignalException: Process 3816713 got signal: 15
"""


def test_workers_that_say_again_what_they_began_with_are_of_another_launch(tmp_path: Path) -> None:
    assert told(tmp_path, _HEAD + _ASKED + _HEAD + "counting the words\n" * 40).category == "none"
    assert told(tmp_path, _HEAD + _ASKED + "counting the words\n" * 40).category == "preemption"
