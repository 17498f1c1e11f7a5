"""What an answer costs grows as the number of ranks does, counted in lines of this program that are run: no clock is asked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from preflight.investigate.case.case import Case
from preflight.investigate.case.events import events_of
from preflight.source.logs import read_logs
from preflight.vocabulary.log import Hit, Reading, Who
from preflight.vocabulary.signature import Signature

FEW, MANY = 48, 192
LINEAR = 1.3 * MANY / FEW
"""Sorting grows a little faster than what is sorted; looking through all for each would be sixteen times as much."""


def lines_run(work: Callable[[], object]) -> int:
    """Return how many lines of Preflight are run, those inside comprehensions included."""
    count = 0

    def traced(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if "preflight" not in frame.f_code.co_filename:
            return None
        count += event == "line"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def handed_on(rank: int) -> str:
    return (
        f"[rank{rank}]: ray.exceptions.RayTaskError(ValueError): ray::train() (pid={4000 + rank}, ip=10.0.0.{rank})\n"
        f'[rank{rank}]:   File "/job/train.py", line 9, in train\n'
        f"[rank{rank}]:     raise ValueError(name)\n"
        f"[rank{rank}]: ValueError: no such name\n"
    )


def given_twice(rank: int) -> str:
    return f"[rank{rank}]: step 1 loss 2.5\n[rank{rank}]: RuntimeError: CUDA error: unspecified launch failure\n"


@pytest.mark.slow
@pytest.mark.parametrize("said", [handed_on, given_twice])
def test_events_of_many_ranks_are_found_in_time_that_grows_with_them(
    tmp_path: Path, said: Callable[[int], str], every_signature: tuple[Signature, ...]
) -> None:
    table = {one.id: one for one in every_signature}
    counts = []
    for ranks in (FEW, MANY):
        folder = tmp_path / str(ranks)
        folder.mkdir()
        for rank in range(ranks):
            (folder / f"rank{rank}.log").write_text(said(rank))
        reading = read_logs([folder], every_signature)
        assert len({one.hit.file for one in reading.raised} | {one.file for one in reading.hits}) >= ranks
        counts.append(lines_run(lambda of=reading: events_of(Case(of, table))))
    assert counts[1] <= LINEAR * counts[0]


def test_whether_ranks_were_given_twice_is_looked_for_once(every_signature: tuple[Signature, ...]) -> None:
    table = {one.id: one for one in every_signature}
    warns = next(one for one in every_signature if one.root_when == "ranks-given-twice")
    counts = []
    for ranks in (FEW, MANY):
        hits = tuple(
            Hit(signature=warns.id, file=0, line=rank, offset=0, text="", who=Who(rank)) for rank in range(ranks)
        )
        reading = Reading(hits=hits)
        counts.append(lines_run(lambda of=reading: events_of(Case(of, table))))
    assert counts[1] <= LINEAR * counts[0]


@pytest.fixture(scope="module")
def every_signature() -> tuple[Signature, ...]:
    from preflight.catalog.signature_files import load_signatures

    return tuple(load_signatures())
