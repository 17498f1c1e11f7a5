"""A search for settings goes on behind a trial that failed, as long as its runner catches what the trial raised."""

from __future__ import annotations

from pathlib import Path

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident

_FAILED = (
    "[W 2025-02-03 10:01:41,120] Trial 1 failed with parameters: {'lr': 1.1} because of the following error: "
    "ValueError('the loss is nan').\n"
)
_RAISED = (
    'Traceback (most recent call last):\n  File "/env/lib/python3.11/site-packages/optuna/study/_optimize.py", line 201, in _run_trial\n'
    '    value = func(trial)\n  File "/home/me/search.py", line 7, in objective\n    act()\nValueError: the loss is nan\n'
)


def done(number: int) -> str:
    return (
        f"[I 2025-02-03 10:0{number}:11,120] Trial {number} finished with value: 0.8 and parameters: {{'lr': 0.1}}.\n"
    )


def told(folder: Path, text: str) -> Incident:
    (folder / "run.log").write_text(text)
    return diagnose(folder).incident


def test_a_trial_that_failed_ended_no_search(tmp_path: Path) -> None:
    assert told(tmp_path, done(0) + _FAILED + done(2)).category == "none"
    assert told(tmp_path, done(0) + _FAILED + _RAISED + done(2)).category == "none"


def test_the_last_trial_may_have_ended_it(tmp_path: Path) -> None:
    assert told(tmp_path, done(0) + _FAILED).category == "numerical"
    whole = _RAISED.replace(
        "(most recent call last):\n", '(most recent call last):\n  File "search.py", line 20, in <module>\n    run()\n'
    )
    assert told(tmp_path, done(0) + _FAILED + whole).category not in ("none", "cannot-tell")
