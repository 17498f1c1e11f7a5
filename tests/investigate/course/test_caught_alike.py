"""What one handler prints again and again ended nothing, nor what a program says in its own words before something else ends it."""

from __future__ import annotations

from pathlib import Path

from preflight.investigate.diagnose import diagnose

_ROWS = "".join(f"model {number} took {number * 1.5:.2f} s of the benchmark\n" for number in range(50))
_LITTLE = "Does not fit here. CUDA out of memory. Tried to allocate 6.00 GiB (GPU 0; 15.90 GiB total capacity; 9.47 GiB already allocated)\n"
_RAISED = (
    'Traceback (most recent call last):\n  File "fit.py", line 9, in <module>\n    act()\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.72 GiB. GPU 0 has a total capacity of 7.96 GiB\n"
)
_MISSING = "picture failed (FileNotFoundError: [Errno 2] No such file or directory: '/data/a/b.py')\n"
_MODEL = "".join(f"block {number} of the network is built\n" for number in range(14))


def category(folder: Path, text: str) -> str:
    (folder / "run.log").write_text(text)
    return diagnose(folder).incident.category


def test_what_one_handler_prints_again_and_again_ended_nothing(tmp_path: Path) -> None:
    assert category(tmp_path, (_ROWS + _LITTLE) * 3 + _ROWS) == "none"
    assert category(tmp_path, (_ROWS + _LITTLE) * 3) == "oom"
    assert category(tmp_path, _ROWS + _LITTLE + _ROWS[:400]) == "oom"


def test_what_was_caught_in_brackets_is_passed_over_for_what_nobody_caught(tmp_path: Path) -> None:
    assert category(tmp_path, _MISSING + _MODEL + _RAISED) == "oom"


def test_a_bar_that_counts_otherwise_begins_no_start_behind_numbers_that_are_none(tmp_path: Path) -> None:
    parts = [
        f"global_step: {200 * number}, loss: nan\nEpoch:  {number}0%|{'#' * number}   | {number}/10 [35:29<5:19:21, 212.07s/it]\n"
        for number in range(1, 6)
    ]
    assert category(tmp_path, "".join(parts)) == "numerical"


def test_a_head_that_bears_times_and_is_told_often_begins_a_start(tmp_path: Path) -> None:
    start = "".join(
        f"2025-05-08 21:{{0}}:{second},426 - fit - INFO - {text}\n"
        for second, text in enumerate(
            ("Loading model: a/b-1", "Search for json: a.json", "Falling back to another head"), 10
        )
    )
    caught = (
        "2025-05-08 21:58:22,426 - fit - ERROR - Error while fitting\nTraceback (most recent call last):\n"
        '  File "/home/me/fit.py", line 5, in main\n    act()\nValueError: a plan of no parts\n'
    )
    text = "".join(start.format(minute) for minute in range(51, 56)) + caught
    assert category(tmp_path, text) == "usercode"
    assert category(tmp_path, text + start.format(59)) != "usercode"


def test_what_a_tool_answers_a_model_was_not_raised(tmp_path: Path) -> None:
    answer = "(Reply(text='Traceback (most recent call last):\\n  File \"/tmp/a.py\", line 2, in <module>\\n    import x\\nNameError: name \\'x\\' is not defined\\n'), 0.0, {})\n"
    assert category(tmp_path, _ROWS + answer + _ROWS[:600]) == "none"
    assert category(tmp_path, _ROWS + answer.replace("text=", "error=") + _ROWS[:600]) == "usercode"
