"""What a program said before it was seen to end with 0."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident

STEPS = "".join(f"step {at} loss {2 * 0.99**at:.4f}\n" for at in range(0, 60))
CAUGHT = "could not draw: RuntimeError: shapes (3,4) and (5,) do not fit\nwrote scores.json\n"
UNCAUGHT = """Traceback (most recent call last):
  File "score.py", line 40, in <module>
    main()
  File "score.py", line 31, in main
    draw(rows)
ValueError: shapes (3,4) and (5,) do not fit
"""
ENDS = [
    "State: COMPLETED (exit code {code})",
    "Process finished with exit code {code}",
    "Exit Status: {code}",
    "trainer-1 exited with code {code}",
    "exit code: {code}",
]
LSF = """
------------------------------------------------------------
# LSBATCH: User input
python train.py | tee train.log

{told}

Resource usage summary:

    CPU time :   120.00 sec.
"""
WELL = [*(end.format(code=0) for end in ENDS), LSF.format(told="Successfully completed."), "Job succeeded"]
SWALLOWED = "ERROR - Training failed: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


def told(folder: Path, text: str) -> Incident:
    (folder / "run.log").write_text(text)
    incident = diagnose(folder).incident
    assert incident is not None
    return incident


@pytest.mark.parametrize("end", WELL)
def test_what_a_program_said_before_it_ended_with_nought_ended_nothing(tmp_path: Path, end: str) -> None:
    incident = told(tmp_path, STEPS + CAUGHT + end + "\n")
    assert (incident.category, incident.state) == ("none", "ended")
    assert incident.recovered


@pytest.mark.parametrize("end", [end.replace("COMPLETED", "FAILED") for end in ENDS])
def test_of_another_code_it_may_have_ended(tmp_path: Path, end: str) -> None:
    assert told(tmp_path, STEPS + CAUGHT + end.format(code=1) + "\n").category not in ("none", "cannot-tell")


@pytest.mark.parametrize("end", WELL)
def test_what_nobody_caught_is_a_failure_though_the_script_ended_with_nought(tmp_path: Path, end: str) -> None:
    assert told(tmp_path, STEPS + UNCAUGHT + end + "\n").category == "usercode"


@pytest.mark.parametrize("end", WELL)
def test_what_a_script_swallowed_is_a_failure_though_it_ended_with_nought(tmp_path: Path, end: str) -> None:
    assert told(tmp_path, STEPS + SWALLOWED + end + "\n").category == "oom"


@pytest.mark.parametrize("end", WELL)
def test_a_program_that_python_does_not_find_did_not_run(tmp_path: Path, end: str) -> None:
    assert told(tmp_path, "/usr/bin/python3: No module named trainkit\n" + end + "\n").category == "environment"


def test_numbers_that_are_none_are_no_better_for_it(tmp_path: Path) -> None:
    lost = "".join(f"step {at} loss nan\n" for at in range(60, 120))
    assert told(tmp_path, STEPS + lost + "exit code: 0\n").category == "numerical"


def test_the_nought_of_a_first_program_says_nothing_of_the_next(tmp_path: Path) -> None:
    assert told(tmp_path, STEPS + "exit code: 0\n" + STEPS + CAUGHT).category == "usercode"


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    "said",
    [
        "ERROR - training failed: RuntimeError: shapes (3,4) and (5,) do not fit\nwrote scores.json\n",
        "ERROR - RuntimeError: shapes (3,4) and (5,) do not fit\n",
        "ERROR - torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\nwrote scores.json\n",
        "run.sh: line 5: 1234 Killed                  python train.py\ncopied the logs\n",
        "Error executing job with overrides: ['lr=1']\n" + UNCAUGHT.replace("<module>", "run") + "copied the logs\n",
    ],
    ids=["gives-up", "last-word", "memory", "killed", "hydra"],
)
def test_a_script_that_caught_what_ended_it_ends_with_nought_as_well(tmp_path: Path, said: str, end: str) -> None:
    assert told(tmp_path, STEPS + said + end.format(code=0) + "\n").category not in ("none", "cannot-tell")


@pytest.mark.parametrize(
    "said", ["train.py: error: unrecognized arguments: --foo\n", "run.sh: line 3: torchrun: command not found\n"]
)
def test_a_program_that_never_trained_did_not_end_well(tmp_path: Path, said: str) -> None:
    assert told(tmp_path, said + "copied the logs\nexit code: 0\n").category not in ("none", "cannot-tell")


@pytest.mark.parametrize("end", ["", "exit code: 0\n"])
def test_a_program_that_says_that_it_gives_up_has_not_gone_on(tmp_path: Path, end: str) -> None:
    gave_up = "ERROR no shard could be opened\naborting training\nclosing\nworkers joined\nbye\n"
    assert told(tmp_path, STEPS + gave_up + end).category not in ("none", "cannot-tell")
    assert told(tmp_path, STEPS + gave_up + STEPS.replace("step ", "step 1") + end).category == "none"
