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


_UNTIMED = _DIED.partition("\n")[2]
_ROWS = "dev   94        0.8671     5.0371     0.0441     0.0414    95.8600    72.5600    65.6400    68.9300\n"


@pytest.mark.parametrize(
    ("behind", "category"),
    [
        (_ROWS * 1500, "none"),
        (_ROWS * 300, "data"),  # it may be the rest of a message, or what waited in a buffer
        ("scan\n" * 1500, "data"),
        (_ROWS * 1500 + _UNTIMED, "data"),  # it failed again
        (_ROWS * 1500 + "srun: error: node1: task 0: Exited with exit code 1\n", "data"),
    ],
)
def test_where_no_line_bears_a_time_very_much_is_no_last_word(tmp_path: Path, behind: str, category: str) -> None:
    assert told(tmp_path, "reading the scans\n" + _UNTIMED + behind).category == category


def test_what_a_script_ran_on_behind_is_shown_all_the_same(tmp_path: Path) -> None:
    incident = told(tmp_path, "reading the scans\n" + _UNTIMED + _ROWS * 1500)
    assert any("No such file" in moment.quote.text for moment in incident.recovered if moment.quote is not None)
    assert "no word of trouble" not in incident.headline


_REFUSED = """\
Could not override 'pruning_index'.
To append to your config use +pruning_index=3.0
Key 'pruning_index' is not in struct
    full_key: pruning_index
    object_type=dict
"""


def validated(minute: int) -> str:
    """Return a minute's lines of a program that counts epochs and no steps."""
    return "".join(
        f"[2026-02-11 09:{minute:02d}:{at:02d},000][train][INFO] - Epoch {at + 1}/140, Val Acc=0.{600 + at}, Val Loss={1.9 - at / 1000:.4f}\n"
        for at in range(60)
    )


def test_steps_without_a_number_behind_counted_ones_are_of_what_ran_on(tmp_path: Path) -> None:
    counted = "".join(
        f"[2026-02-11 08:59:{at:02d},000][meta][INFO] - Epoch {at // 8 + 1}/100, iter {at % 8 + 1}/8, train loss={2 - at / 100:.3f}\n"
        for at in range(48)
    )
    before = counted + validated(10) + "[2026-02-11 09:20:00,000][plot][INFO] - drawn\n" + _REFUSED
    begun = "[2026-02-11 09:31:00,000][root][INFO] - begun\n"
    assert told(tmp_path, before + begun + validated(40) + scored(300, 50)).category == "none"
    assert told(tmp_path, before + begun + scored(300, 50)).category == "environment"


_MISFIT = """\
2026-02-11 10:09:30,401 - INFO - Loading the weights
2026-02-11 10:09:30,401 - WARNING - Could not load the weights: Error(s) in loading state_dict for Segmenter:
\tsize mismatch for head.conv_seg.weight: copying a param with shape torch.Size([4, 1024, 1, 1]) from checkpoint, the shape in current model is torch.Size([2, 1024, 1, 1]).
"""


@pytest.mark.parametrize(
    ("last", "category"),
    [
        ("2026-02-11 10:09:30,402 - INFO - Continuing with randomly initialized weights...\n", "none"),
        ("2026-02-11 10:09:30,402 - INFO - The weights were not loaded\n", "checkpoint"),
        (
            "2026-02-11 10:09:30,402 - INFO - Continuing with random weights\nsrun: error: n1: task 0: Exited with exit code 1\n",
            "checkpoint",
        ),
    ],
)
def test_a_program_that_says_last_of_all_that_it_goes_on_has_not_failed(
    tmp_path: Path, last: str, category: str
) -> None:
    assert told(tmp_path, _LONG * 45 + _MISFIT + last).category == category


def test_what_nobody_caught_has_failed_whatever_stands_behind_it(tmp_path: Path) -> None:
    said = "2026-02-11 09:00:01,000 - test - INFO - Continuing without the scans\n"
    caught = _DIED.replace('line 146, in <module>\n    main()\n  File "/job/test.py", ', "")
    assert told(tmp_path, _LONG * 45 + caught + said).category == "none"
    assert told(tmp_path, _LONG * 45 + _DIED + said).category == "data"


@pytest.mark.parametrize(
    ("end", "category"),
    [
        ("Successfully completed.\n\nResource usage summary:\n", "none"),
        ("Done. Your build exited with 0.\n", "none"),
        ("Job succeeded\n", "none"),
        ("All 3 stages completed successfully.\n", "none"),
        ("Done. Your build exited with 1.\n", "data"),
        ("not all stages completed successfully\n", "data"),
    ],
)
def test_whoever_ran_it_says_that_it_succeeded(tmp_path: Path, end: str, category: str) -> None:
    assert told(tmp_path, "reading the scans\n" + _UNTIMED + _ROWS * 30 + end).category == category


def test_a_batch_system_that_reports_several_jobs_in_a_file_says_how_the_last_one_ended(tmp_path: Path) -> None:
    killed = "TERM_OWNER: job killed by owner.\nExited with exit code 1.\n\nResource usage summary:\n"
    done = "Successfully completed.\n\nResource usage summary:\n"
    assert told(tmp_path, _ROWS * 30 + killed + _ROWS * 30 + done).category == "none"
    assert told(tmp_path, _ROWS * 30 + done + _ROWS * 30 + killed).category == "preemption"
