"""Storms of the same lines are counted, and what differs from them is still told."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from preflight.investigate.judge import judge
from preflight.source.logs import read_logs
from preflight.source.logs.repeats import ENOUGH, OF_EACH


def _traceback(rank: int, text: str) -> str:
    lines = ("Traceback (most recent call last):", f'  File "/app/train.py", line {rank + 10}, in <module>', text)
    return "".join(f"[rank{rank}]: {line}\n" for line in lines)


def test_a_storm_of_one_traceback_is_counted_and_another_one_among_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    many = [_traceback(number % 8, f"RuntimeError: step {number} went wrong") for number in range(400)]
    many.insert(390, _traceback(3, "KeyError: 'weight'"))
    path.write_text("".join(many))
    reading = read_logs([path])
    read = len([one for one in reading.raised if one.exception == "RuntimeError"])
    assert ENOUGH <= read <= ENOUGH + 2  # before what differs, and at the end, something else stands behind it
    (other,) = [one for one in reading.raised if one.exception == "KeyError"]
    assert other.hit.who.rank == 3
    assert any(f"{400 - read} tracebacks more that repeat" in note for note in reading.notes)


def test_a_writer_that_comes_late_to_a_storm_is_read_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    ranks = [0] * 200 + [5] * 20
    path.write_text("".join(_traceback(rank, "RuntimeError: went wrong") for rank in ranks))
    reading = read_logs([path])
    assert sum(one.hit.who.rank == 5 for one in reading.raised) in (OF_EACH, OF_EACH + 1)  # the last one ends the file


def _deep(text: str) -> list[str]:
    frames = [
        line
        for n in range(30)
        for line in (f'  File "/app/lib/part_{n:03d}.py", line {n}, in call', "    " + "f(x)" * 30)
    ]
    return ["Traceback (most recent call last):", *frames, text]


@pytest.mark.parametrize("prefix", ["", "[rank0]: ", "3: ", "2024-03-01 00:00:01,{n:03d} "])
def test_deep_tracebacks_that_differ_in_their_exception_alone_are_no_storm(tmp_path: Path, prefix: str) -> None:
    path = tmp_path / "out.log"
    shown = [_deep("ConnectionResetError: [Errno 104] reset")] * 105 + [_deep("AssertionError")]
    path.write_text("".join(prefix.format(n=n) + line + "\n" for n, lines in enumerate(shown) for line in lines))
    reading = read_logs([path])
    assert [one.exception for one in reading.raised][-1] == "AssertionError"
    assert len(reading.raised) == ENOUGH + 1


def test_ranks_that_print_in_lockstep_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    usual = _traceback(0, "RuntimeError: went wrong").replace("line 10", "line 1").splitlines(True)
    other = _traceback(0, "KeyError: 'weight'").replace("line 10", "line 1").splitlines(True)
    rank_1 = [line.replace("rank0", "rank1") for line in usual]
    pairs = [usual] * 200 + [other]
    path.write_text("".join(a + b for pair in pairs for a, b in zip(pair, rank_1, strict=True)))
    raised = read_logs([path]).raised
    assert len(raised) < 250
    assert [one.hit.who.rank for one in raised if one.exception == "KeyError"] == [0]


def test_errors_that_differ_in_random_names_are_one_template_with_all_ranks(tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    draw = random.Random(1)
    lines = [
        f"2024-03-01 00:{n // 60:02d}:{n % 60:02d},000 [rank{n % 4}] ERROR worker.py:7: block {draw.getrandbits(32):08x} of peer "
        f"{draw.getrandbits(64):016X} is lost\n"
        for n in range(1000)
    ]
    path.write_text("".join(lines))
    (one,) = read_logs([path]).unknown
    assert (one.count, one.ranks) == (1000, (0, 1, 2, 3))
    assert read_logs([path]).files[0].last_time == 1709251200 + 999


def _cell(number: int, text: str) -> str:
    name = text.partition(":")[0]
    lines = (
        f"{name}{'Traceback (most recent call last)':>60}", f"Cell In[{number}], line 3", "      1 x = load()",
        "----> 3 model.fit(x)", "", text, "Epoch 1/2 loss: 0.5", "Epoch 2/2 loss: 0.4",
    )  # fmt: skip
    return "".join(f"{line}\n" for line in lines)


def test_of_a_notebook_the_last_of_many_cells_that_fail_alike_is_read(tmp_path: Path) -> None:
    path = tmp_path / "notebook.txt"
    path.write_text("".join(_cell(number, f"ValueError: row {number} is bad") for number in range(1, 3 * ENOUGH)))
    reading = read_logs([path])
    assert reading.raised[-1].message.splitlines()[0] == f"row {3 * ENOUGH - 1} is bad"
    incident = judge(reading)
    assert incident.category == "usercode"
    assert incident.first_failure is not None
    assert incident.first_failure.line is not None
    assert incident.first_failure.line > (3 * ENOUGH - 2) * 8
