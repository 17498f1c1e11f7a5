"""What waited in a buffer comes out behind the traceback that a program ends with, and is of no other start."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose

_RAISED = "Traceback (most recent call last):\n  File \"fit.py\", line 9, in <module>\n    act()\nNameError: name 'rate' is not defined\n"
_CELL = _RAISED.replace('File "fit.py", line 9', 'File "<ipython-input-3-0a1b2c3d4e5f>", line 9')


def category(folder: Path, text: str) -> str:
    (folder / "run.log").write_text(text)
    return diagnose(folder).incident.category


def steps(first: int, behind: int, name: str = "step") -> str:
    return "".join(f"{name} {number}: train loss {2.0 / number:.4f}\n" for number in range(first, behind))


@pytest.mark.parametrize("name", ["step", "Epoch"])
def test_a_buffer_full_behind_a_death_was_said_before_it(tmp_path: Path, name: str) -> None:
    assert category(tmp_path, _RAISED + steps(1, 40, name)) == "usercode"
    assert category(tmp_path, steps(1, 900, name) + _RAISED + steps(900, 940, name)) == "usercode"


@pytest.mark.parametrize("name", ["step", "Epoch"])
def test_steps_that_begin_anew_or_fill_more_than_a_buffer_are_of_another_start(tmp_path: Path, name: str) -> None:
    assert category(tmp_path, steps(1, 40, name) + _RAISED + steps(1, 60, name)) == "none"
    assert category(tmp_path, _RAISED + steps(1, 900, name)) == "none"


def test_a_file_in_which_two_scripts_died_is_appended_to(tmp_path: Path) -> None:
    assert category(tmp_path, _RAISED + _RAISED + steps(1, 40)) == "none"


def test_a_cell_of_a_notebook_has_no_buffer(tmp_path: Path) -> None:
    assert category(tmp_path, _CELL + steps(1, 40)) == "none"


def test_a_loop_that_prints_what_it_caught_and_goes_on_kept_nothing_back(tmp_path: Path) -> None:
    assert category(tmp_path, steps(1, 6) + _RAISED + "batch 6 is left out\n" + steps(7, 40)) == "none"
    assert category(tmp_path, steps(1, 6, "Epoch") + _RAISED + steps(6, 12, "Epoch")) == "none"


def test_what_bears_a_later_time_did_not_wait(tmp_path: Path) -> None:
    head = "2025-11-01 10:00:00,123 - INFO - on cuda\n"
    later = "".join(
        f"2025-11-01 10:{20 + number}:00,123 - INFO - [epoch {number:03d}] train_loss={2 / number:.4f}\n"
        for number in range(1, 12)
    )
    assert category(tmp_path, head + _RAISED + head.replace("10:00", "10:20") + later) == "none"
    assert category(tmp_path, head + _RAISED + steps(1, 12, "Epoch")) == "usercode"


def test_a_code_that_a_tracker_saw_takes_back_no_death(tmp_path: Path) -> None:
    ended = "2025-11-26 01:11:08,159 INFO    MainThread:2101 [wandb_run.py:_atexit_cleanup():2469] got exitcode: 0\n"
    refused = "2025-11-26 01:11:07,159 ERROR   MainThread:2101 [upload.py:send():12] upload failed: HTTPError 502\n"
    assert category(tmp_path, _RAISED + ended) == "usercode"
    assert category(tmp_path, refused + ended) == "none"
