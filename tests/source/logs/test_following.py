"""Files that grow are followed."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from preflight.source.logs import following, sampling
from preflight.source.logs.following import HELD, QUIET, Follower

LINE = "2024-01-01 12:00:0{} INFO step: {} loss: 2.5\n"


def _grow(path: Path, text: str) -> None:
    with path.open("a") as stream:
        stream.write(text)


def test_what_is_new_is_read_once_it_is_quiet(tmp_path: Path) -> None:
    path = tmp_path / "rank_3.log"
    path.write_text(LINE.format(1, 1))
    follower = Follower([tmp_path])
    follower.poll(10.0)
    assert not follower.reading().steps, "more may come at once"
    assert follower.poll(10.0 + QUIET)
    assert [(step.step, step.who.rank) for step in follower.reading().steps] == [(1, 3)]
    _grow(path, LINE.format(2, 2))
    follower.poll(11.0)
    assert follower.poll(11.0 + QUIET)
    assert not follower.poll(12.0)
    assert [step.line for step in follower.reading().steps] == [1, 2]


def test_a_traceback_that_comes_in_pieces_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(LINE.format(1, 1))
    follower = Follower([tmp_path])
    follower.poll(1.0)
    follower.poll(2.0)
    _grow(path, 'Traceback (most recent call last):\n  File "/a.py", line 3, in f\n')
    follower.poll(3.0)
    _grow(path, "RuntimeError: boo\n")
    follower.poll(3.1)
    assert not follower.reading().raised
    assert follower.poll(3.2 + QUIET)
    (raised,) = follower.reading().raised
    assert (raised.exception, raised.message, raised.hit.line) == ("RuntimeError", "boo", 4)


def test_a_file_that_never_rests_is_read_within_a_second(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("")
    follower = Follower([tmp_path])
    now, lag = 5.0, 0.0
    for number in range(40):
        _grow(path, LINE.format(1, number))
        follower.poll(now)
        seen = len(follower.reading().steps)
        lag = max(lag, (number + 1 - seen) * 0.1)
        now += 0.1
    assert lag <= HELD + 0.2


def test_a_new_file_and_one_begun_anew_are_seen(tmp_path: Path) -> None:
    first = tmp_path / "rank_0.log"
    first.write_text(LINE.format(1, 1) * 3)
    follower = Follower([tmp_path])
    follower.poll(1.0)
    follower.poll(2.0)
    (tmp_path / "rank_1.log").write_text(LINE.format(5, 5))
    first.write_text(LINE.format(9, 9))
    for now in (20.0, 21.0, 22.0):
        follower.poll(now)
    reading = follower.reading()
    assert {(step.who.rank, step.step) for step in reading.steps} == {(0, 9), (1, 5)}
    assert any("begun anew" in note for note in reading.notes)


def test_another_follower_goes_on_where_the_first_one_ended(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(LINE.format(1, 1))
    first = Follower([tmp_path])
    first.poll(1.0)
    first.poll(2.0)
    _grow(path, LINE.format(2, 2))
    second = Follower([tmp_path], tails=first.tails())
    second.poll(3.0)
    second.poll(4.0)
    assert [(step.line, step.step) for step in second.reading().steps] == [(2, 2)]


def test_a_packed_file_that_comes_is_read_whole(tmp_path: Path) -> None:
    import gzip

    follower = Follower([tmp_path])
    follower.poll(1.0)
    (tmp_path / "old.log.gz").write_bytes(gzip.compress(LINE.format(1, 1).encode()))
    for now in (20.0, 21.0, 22.0):
        follower.poll(now)
    assert [step.step for step in follower.reading().steps] == [1]


def test_what_is_judged_again_and_again_stays_small(tmp_path: Path) -> None:
    """However much is written, steps are kept evenly, the last ones among them; files that come later take their share."""
    first = tmp_path / "rank_0.log"
    first.write_text("".join(f"step: {number} loss: 2.5\n" for number in range(30_000)))
    follower = Follower([tmp_path])
    follower.poll(1.0)
    follower.poll(2.0)
    alone = [step.step for step in follower.reading().steps]
    assert len(alone) <= following._STEPS + sampling.TAIL
    assert alone[-1] == 29_999
    for rank in range(1, 8):
        (tmp_path / f"rank_{rank}.log").write_text("step: 1 loss: 2.5\n")
    follower.poll(4.0)
    _grow(first, "step: 30000 loss: 2.5\n")
    follower.poll(5.0)
    follower.poll(6.0)
    steps = [step.step or 0 for step in follower.reading().steps if step.file == 0]
    assert len(steps) <= following._STEPS // 8 + sampling.TAIL
    assert steps[-1] == 30_000
    assert max(after - before for before, after in pairwise(steps)) < 200


@pytest.mark.parametrize("how", ["renamed", "copied and cut"])
@pytest.mark.parametrize("whole", [False, True], ids=["the file", "its folder"])
def test_nothing_of_a_log_that_rotates_is_lost_or_counted_twice(tmp_path: Path, how: str, whole: bool) -> None:
    path = tmp_path / "rank_3.log"
    path.write_text(LINE.format(1, 1) + LINE.format(2, 2))
    follower = Follower([tmp_path if whole else path])
    now = 10.0
    for step in (4, 6, 8):
        follower.poll(now)
        follower.poll(now + 1)
        _grow(path, LINE.format(3, step - 1))  # comes right before the log rotates, and was not looked at
        for number in (2, 1):
            if (old := tmp_path / f"rank_3.log.{number}").exists():
                old.rename(tmp_path / f"rank_3.log.{number + 1}")
        if how == "renamed":
            path.rename(tmp_path / "rank_3.log.1")
            path.write_text(LINE.format(4, step))
        else:
            shutil.copy(path, tmp_path / "rank_3.log.1")
            path.write_text("")
            follower.poll(now + 2)
            _grow(path, LINE.format(4, step))
        now += 10
    for _ in range(4):
        follower.poll(now)
        now += 2
    reading = follower.reading()
    assert sorted(step.step or 0 for step in reading.steps) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert {step.who.rank for step in reading.steps} == {3}
    assert len({file.path for file in reading.files}) == len(reading.files) == 4


def test_what_another_run_writes_to_the_same_file_is_judged_alone(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(
        LINE.format(1, 1) + 'Traceback (most recent call last):\n  File "a.py", line 3, in f\nKeyError: 3\n'
    )
    (tmp_path / "train.log.1").write_text(LINE.format(0, 7) * 9)
    follower = Follower([path])
    follower.poll(1.0)
    follower.poll(2.0)
    assert len(follower.reading().raised) == 1
    path.write_text(LINE.format(2, 5))
    for now in (3.0, 4.0, 5.0):
        follower.poll(now)
    reading = follower.reading()
    assert not reading.raised
    assert [step.step for step in reading.steps] == [5]
    assert any("not judged" in note for note in reading.notes)
