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


def told(folder: Path, text: str) -> Incident:
    (folder / "run.log").write_text(text)
    incident = diagnose(folder).incident
    assert incident is not None
    return incident


@pytest.mark.parametrize("end", ENDS)
def test_what_a_program_said_before_it_ended_with_nought_ended_nothing(tmp_path: Path, end: str) -> None:
    incident = told(tmp_path, STEPS + CAUGHT + end.format(code=0) + "\n")
    assert (incident.category, incident.state) == ("none", "ended")
    assert incident.recovered


@pytest.mark.parametrize("end", [end.replace("COMPLETED", "FAILED") for end in ENDS])
def test_of_another_code_it_may_have_ended(tmp_path: Path, end: str) -> None:
    assert told(tmp_path, STEPS + CAUGHT + end.format(code=1) + "\n").category not in ("none", "cannot-tell")


@pytest.mark.parametrize("end", ENDS)
def test_what_nobody_caught_is_a_failure_though_the_script_ended_with_nought(tmp_path: Path, end: str) -> None:
    assert told(tmp_path, STEPS + UNCAUGHT + end.format(code=0) + "\n").category == "usercode"


def test_numbers_that_are_none_are_no_better_for_it(tmp_path: Path) -> None:
    lost = "".join(f"step {at} loss nan\n" for at in range(60, 120))
    assert told(tmp_path, STEPS + lost + "exit code: 0\n").category == "numerical"


def test_the_nought_of_a_first_program_says_nothing_of_the_next(tmp_path: Path) -> None:
    assert told(tmp_path, STEPS + "exit code: 0\n" + STEPS + CAUGHT).category == "usercode"
