"""Logs that end without a word of the program itself: what ran it says how it ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident

_FULL = "ERROR: could not write the checkpoint: No space left on device\n"
_STEPS = "".join(f"step {step} loss {4 / (step + 2):.4f}\n" for step in range(50))


def told(folder: Path, text: str) -> Incident:
    (folder / "run.log").write_text(text)
    incident = diagnose(folder).incident
    assert incident is not None
    return incident


@pytest.mark.parametrize(
    ("last", "category"),
    [
        ("make: *** [Makefile:12: train] Error 1", "other"),
        ("Process exited with code 1", "other"),
        ('The command "python train.py" exited with 1.\n\nDone. Your build exited with 1.', "other"),
        ("Done. Your build exited with 1.", "other"),
        ("Done. Your build exited with 0.", "none"),
        ("run.sh: line 12: 4711 Terminated              python train.py", "preemption"),
        ("run.sh: line 12: 4711 Aborted                 python train.py", "other"),
        ("Illegal instruction", "environment"),
        ("\nreal\t12m3s\nCommand exited with non-zero status 1", "other"),
        ("State: FAILED (exit code 1)\nCores: 8", "other"),
        ("State: OUT_OF_MEMORY (exit code 0)\nCores: 8", "oom"),
        ("State: TIMEOUT (exit code 0)\nCores: 8", "preemption"),
        ("JobID   JobName  State  ExitCode\n12345   train   TIMEOUT   0:0\n12345.batch  batch  CANCELLED  0:15", "preemption"),
        ("wandb: Waiting for W&B process to finish... (failed 1). Press Control-C to abort syncing.", "other"),
        ("10:11:12,681 INFO    SenderThread:76 [sender.py:send_exit():589] handling exit code: 1", "other"),
        ("10:11:12,681 INFO    SenderThread:76 [sender.py:send_exit():589] handling exit code: 0", "none"),
        ("10:11:12,525 INFO    MainThread:39 [wandb_run.py:_atexit_cleanup():2469] got exitcode: 255", "preemption"),
        ("wandb: Waiting for W&B process to finish... (failed 255). Press Control-C to abort syncing.", "preemption"),
        ("^C", "preemption"),
        ("forrtl: error (200): program aborting due to control-C event", "preemption"),
        ("Your session crashed after using all available RAM.", "oom"),
        ("The Kernel crashed while executing code in the current cell or a previous cell.", "other"),
        ("2026-02-11 09:14:12 Failed - Training job failed", "other"),
        ("State: COMPLETED (exit code 0)\nCores: 8", "none"),
        ("\tCommand being timed: \"python train.py\"\n\tExit status: 0", "none"),
    ],
)  # fmt: skip
def test_the_last_word_is_of_what_ran_the_program(tmp_path: Path, last: str, category: str) -> None:
    incident = told(tmp_path, f"{_STEPS}{last}\n")
    assert incident.category == category


def test_a_program_that_ended_long_before_the_end_of_the_file_was_followed_by_another(tmp_path: Path) -> None:
    ended = "Command exited with non-zero status 1\n"
    assert told(tmp_path, ended + "item scored\n" * 30).state == "crashed"
    assert told(tmp_path, ended + "item scored\n" * 260).category == "none"
    assert told(tmp_path, ended + _STEPS).category == "none"


@pytest.mark.parametrize("before", ["building\n", _STEPS])
@pytest.mark.parametrize(
    "end", ["##[error]Process completed with exit code 1.", "make: *** [Makefile:12: train] Error 137"]
)
def test_what_cleans_up_behind_a_failure_shows_nothing_that_ran_on(tmp_path: Path, before: str, end: str) -> None:
    assert (
        told(tmp_path, f"{before}{end}\nPost job cleanup.\n" + "git config --local --unset-all\n" * 60).category
        != "none"
    )


def test_what_others_had_begun_when_one_ended_is_told_by_each_of_them(tmp_path: Path) -> None:
    ended = "The replica train-3 exited with exit code 1\n"
    others = "".join(f"replica {rank}: step 50 loss 0.0769\n" for rank in range(16)) + "waiting for the replica\n" * 40
    assert told(tmp_path, _STEPS + ended + others).category != "none"


def test_a_program_that_tells_of_others_that_it_starts_does_not_end_as_they_do(tmp_path: Path) -> None:
    ended = "Program exited with code 1\n"
    assert told(tmp_path, "".join(step + "\n" + ended for step in _STEPS.splitlines())).category == "none"
    assert told(tmp_path, _STEPS + ended * 4).category == "other"  # nothing was done between them
    assert (
        told(tmp_path, (_STEPS + "Command exited with non-zero status 1\n") * 5).category == "other"
    )  # each start died


def test_an_end_that_is_told_is_no_guess_by_the_names_in_its_line(tmp_path: Path) -> None:
    end = "[2026-02-11 09:12:11,301] [ERROR] [launch.py:325:sigkill_handler] ['python', 'train.py'] exits with return code = -9\n"
    assert told(tmp_path, _STEPS + end).signature == "exit.killed"


def test_what_a_program_only_printed_again_and_again_does_not_end_it_the_last_time(tmp_path: Path) -> None:
    said = "ERROR:sandbox:a candidate could not be executed: NameError: name 'np' is not defined\n"
    lines = [line + "\n" for line in _STEPS.splitlines()]
    often = "".join(line + (said if at % 7 == 0 else "") for at, line in enumerate(lines))
    assert told(tmp_path, often).category == "none"
    assert told(tmp_path, often.replace(said, _FULL) + _FULL).category == "checkpoint"
    assert told(tmp_path, _STEPS + said).category != "none"
