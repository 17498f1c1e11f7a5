"""Runs that count their epochs alone: what they go on behind did not end them."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident

_MEMORY = "kernel: Out of memory: Killed process 4711 (java) total-vm:9830400kB\n"
_DRIVER = (
    "/env/lib/python3.11/site-packages/torch/cuda/__init__.py:138: UserWarning: CUDA initialization: The NVIDIA driver on your system"
    " is too old (found version 11040).\n"
)
_CAUGHT = 'Traceback (most recent call last):\n  File "/home/me/fit.py", line 9, in work\n    act()\nValueError: a plan of no parts\n'
_UNCAUGHT = _CAUGHT.replace("in work", "in <module>")


def told(folder: Path, text: str) -> Incident:
    (folder / "run.log").write_text(text)
    return diagnose(folder).incident


def epochs(first: int, behind: int) -> str:
    return "".join(f"Epoch {number}: train loss {2.0 / number:.4f}\n" for number in range(first, behind))


@pytest.mark.parametrize("trouble", [_MEMORY, _DRIVER, _CAUGHT])
def test_epochs_behind_what_looks_like_an_end_show_that_it_was_none(tmp_path: Path, trouble: str) -> None:
    assert told(tmp_path, "reading\n" + trouble + epochs(1, 6)).category == "none"
    assert told(tmp_path, "reading\n" + epochs(1, 4) + trouble + epochs(4, 7)).category == "none"


@pytest.mark.parametrize("trouble", [_MEMORY, _CAUGHT])
def test_what_stands_behind_the_last_epoch_ended_the_run(tmp_path: Path, trouble: str) -> None:
    assert told(tmp_path, "reading\n" + epochs(1, 6) + trouble).category not in ("none", "cannot-tell")


def test_one_epoch_that_is_told_again_is_none_behind_it(tmp_path: Path) -> None:
    text = epochs(1, 6) + _CAUGHT + epochs(5, 6) * 3
    assert told(tmp_path, text).category == "usercode"


def test_an_epoch_that_waited_in_a_buffer_comes_out_behind_what_nobody_caught(tmp_path: Path) -> None:
    assert told(tmp_path, epochs(1, 4) + _UNCAUGHT + epochs(4, 5)).category == "usercode"


def test_a_loss_that_is_no_number_in_every_epoch_stays_one(tmp_path: Path) -> None:
    text = epochs(1, 4) + "".join(f"Epoch {number}: train loss nan\n" for number in range(4, 9))
    assert told(tmp_path, text).category == "numerical"


def test_a_program_that_begins_an_epoch_loaded_what_fitted(tmp_path: Path) -> None:
    misfit = 'Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "head.weight".\n'
    assert told(tmp_path, misfit + "rate 0.1\nEpoch 1/5\n").category != "checkpoint"
    assert told(tmp_path, misfit + "rate 0.1\n").category == "checkpoint"
    raised = misfit.replace("Error(s)", _UNCAUGHT.replace("ValueError: a plan of no parts\n", "RuntimeError: Error(s)"))
    assert told(tmp_path, raised + "rate 0.1\nEpoch 1/5\n").category == "checkpoint"


def test_each_fold_counts_its_epochs_from_the_first(tmp_path: Path) -> None:
    folds = [f"fold {fold}\n" + epochs(1, 5) for fold in range(5)]
    failed = "RuntimeError: no picture of this fold\n"
    assert told(tmp_path, "".join([*folds[:3], failed, *folds[3:]])).category == "none"
    assert told(tmp_path, "".join([*folds, failed])).category == "usercode"


_THREAD = """Exception in thread Thread-7:
Traceback (most recent call last):
  File "/usr/lib/python3.11/threading.py", line 1045, in _bootstrap_inner
    self.run()
  File "/home/me/pictures.py", line 31, in run
    self.write(self.queue.get())
OSError: [Errno 5] Input/output error
"""


def test_a_thread_that_ended_is_outlived_by_epochs(tmp_path: Path) -> None:
    assert told(tmp_path, epochs(1, 5) + _THREAD + epochs(5, 30)).category == "none"


def test_a_thread_that_ended_and_no_epoch_behind_it(tmp_path: Path) -> None:
    assert told(tmp_path, epochs(1, 5) + _THREAD).category not in ("none", "cannot-tell")


def test_epochs_that_waited_in_a_buffer_show_nothing_of_a_thread(tmp_path: Path) -> None:
    assert told(tmp_path, _THREAD + epochs(1, 5)).category not in ("none", "cannot-tell")


def bars(first: int, behind: int) -> str:
    return "".join(
        f"Epoch {at}: 100%|######| 500/500 [02:01<00:00,  4.1it/s, loss={2 / (at + 1):.3f}]\n"
        for at in range(first, behind)
    )


_ROWS = "".join(
    f"      {at}/20      3.1G     0.9     0.8      0.7         41        640: 100%|######| 88/88 [00:20<00:00,  4.3it/s]\n"
    for at in range(1, 20)
)
_HALVED = "RuntimeError: CUDA out of memory. Tried to allocate 80.00 MiB -> half of the batch\n"


@pytest.mark.parametrize("trained", [bars(1, 6), _ROWS])
def test_bars_that_are_only_drawn_when_they_are_full_count_their_epochs(tmp_path: Path, trained: str) -> None:
    assert told(tmp_path, "reading\n" + _HALVED + trained).category == "none"
    assert told(tmp_path, "reading\n" + trained + _HALVED + trained.splitlines()[-1] + "\n").category == "oom"


def test_a_full_bar_that_is_drawn_once_more_is_no_epoch_behind_it(tmp_path: Path) -> None:
    again = bars(3, 4) * 3
    assert told(tmp_path, bars(0, 4) + _HALVED + again).category == "oom"


_TUNED = """Traceback (most recent call last):
  File "/env/lib/python3.11/site-packages/acme/tune.py", line 9, in measure
    act()
OSError: no clock
"""


def test_more_than_a_buffer_holds_was_said_behind_what_a_library_caught(tmp_path: Path) -> None:
    assert told(tmp_path, "reading\n" + _TUNED + epochs(1, 500)).category == "none"
    assert told(tmp_path, "reading\n" + _TUNED + epochs(1, 20)).category != "none"


def test_the_others_go_on_for_long_where_one_of_several_ranks_died(tmp_path: Path) -> None:
    ranks = "rank 0 of 2 begins\nrank 1 of 2 begins\n"
    assert told(tmp_path, "world_size=2\n" + ranks + _UNCAUGHT + epochs(1, 500)).category == "usercode"
