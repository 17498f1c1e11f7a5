from __future__ import annotations

import json

import pytest

from preflight.source.dumps import error_file
from preflight.source.dumps.opening import format_of, read_dump
from preflight.source.dumps.part import Part
from preflight.vocabulary.log import Frame, LogFile, Who

STACK = 'Traceback (most recent call last):\n  File "/job/train.py", line 9, in main\n    step()\n  File "/job/train.py", line 4, in step\nValueError: bad batch\n'
PYTHON = {
    "message": {"message": "ValueError: bad batch", "extraInfo": {"py_callstack": STACK, "timestamp": "1758610505"}}
}
SIGNAL = {
    "message": {
        "message": "Signal 9 (SIGKILL) received by PID 42",
        "errorCode": 137,
        "extraInfo": {"timestamp": "1758610505"},
    }
}


def part_of(content: bytes, path: str = "logs/attempt_0/3/error.json", who: Who = Who(rank=3)) -> Part:  # noqa: B008
    assert format_of(path, content) is error_file
    return read_dump(error_file, content, LogFile(index=1, path=path, kind="exit", who=who))


def test_an_exception_is_told_with_its_stack() -> None:
    part = part_of(json.dumps(PYTHON).encode())
    (ending,) = part.endings
    assert (ending.about, ending.teller, ending.message, ending.time) == (
        Who(rank=3),
        "error.json",
        "ValueError: bad batch",
        1758610505.0,
    )
    assert ending.time_error == 1.0
    (raised,) = part.raised
    assert (raised.exception, raised.message) == ("ValueError", "bad batch")
    assert raised.frames == (Frame("/job/train.py", 9, "main"), Frame("/job/train.py", 4, "step"))


def test_the_launcher_s_words_have_a_code_and_no_stack() -> None:
    part = part_of(json.dumps(SIGNAL).encode())
    assert part.endings[0].code == 137
    assert part.raised == ()


def test_a_rank_in_the_name_is_used_where_the_layout_tells_none() -> None:
    part = part_of(json.dumps(PYTHON).encode(), "error_rank_5.json", Who())
    assert part.endings[0].about.rank == 5


@pytest.mark.parametrize("cut", [60, 120, 180])
def test_a_file_that_is_cut_off_tells_what_it_holds(cut: int) -> None:
    part = read_dump(error_file, json.dumps(PYTHON).encode()[:cut], LogFile(index=0, path="error.json", kind="exit"))
    assert part.problem is not None


@pytest.mark.parametrize("content", [b'{"loss": 2.0, "message": "hello"}', b'{"message": 3}', b"[]"])
def test_other_json_is_no_error_file(content: bytes) -> None:
    assert format_of("metrics.jsonl", content) is not error_file


@pytest.mark.parametrize(
    "content", [b"{}", b'{"message": null}', b'{"message": {"extraInfo": [1], "timestamp": "x"}}', b"null", b"\xff"]
)
def test_bad_input_is_named_or_empty(content: bytes) -> None:
    part = read_dump(error_file, content, LogFile(index=0, path="error.json", kind="exit"))
    assert part.raised == ()
