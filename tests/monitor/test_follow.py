"""The same trace gives the same answer, finished or growing, in whatever pieces its rows come."""

from __future__ import annotations

import fcntl
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from preflight.monitor import follow
from preflight.monitor.collect.columns import TABLES
from preflight.monitor.collect.encode import block, payload
from preflight.monitor.follow import Follower
from preflight.monitor.library_of import shipped
from preflight.monitor.outcome import report_of
from preflight.monitor.trace.folder import TraceFolder
from preflight.monitor.trace.process import rows_of
from preflight.vocabulary.invariant import Invariant

from .conftest import Recorded

Row = tuple[str, tuple[Any, ...]]


def rows_in(trace: Path, rank: int, world: int) -> list[Row]:
    """All rows of a recorded run in the order of their numbers, as if a rank of several had written them."""
    found: list[tuple[int, Row]] = []
    for batch in TraceFolder(trace).batches():
        for kind, columns in batch.tables.items():
            for row in rows_of(columns):
                told = dict(row)
                if kind == "begin":
                    told |= {"rank": rank, "world": world, "pid": 100 + rank}
                # Norms and rows of an iteration come when the device has given them: after what has a lower number.
                found.append((told.get("e") or told["q"], (kind, tuple(told[name] for name in TABLES[kind]))))
    found.sort(key=lambda one: one[0])
    return [row for _, row in found]


def cut(rows: list[Row], chance: random.Random) -> list[bytes]:
    """Blocks of any sizes."""
    blocks, at = [], 0
    while at < len(rows):
        size = chance.choice((1, 3, 17, 200))
        blocks.append(block(payload(rows[at : at + size])))
        at += size
    return blocks


def judged(follower: Follower, invariants: list[Invariant]) -> Any:
    """What is said of a run, gaps and paths apart."""
    report = report_of(follower, invariants, "test")
    assert report.watched is not None
    watched = msgspec.structs.replace(report.watched, gaps=())
    return report.verdict, report.violations, watched, follower.judged()


@pytest.fixture(scope="module")
def two_ranks(broken_run: Recorded) -> list[list[Row]]:
    return [rows_in(broken_run.trace, rank, 2) for rank in (0, 1)]


@pytest.fixture(scope="module")
def expected(two_ranks: list[list[Row]], tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("whole")
    for rank, rows in enumerate(two_ranks):
        (folder / f"rank-{rank:05d}.{100 + rank}.trace").write_bytes(block(payload(rows)))
    follower = Follower(TraceFolder(folder), shipped())
    follower.check()
    answer = judged(follower, shipped())
    assert answer[0] == "NO-GO"
    assert {one.ranks for one in answer[1]} == {(0, 1)}
    return answer


@pytest.mark.torch
@pytest.mark.parametrize("seed", range(3))
def test_a_finished_trace_may_be_cut_anywhere(
    two_ranks: list[list[Row]], expected: Any, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    for rank, rows in enumerate(two_ranks):
        (tmp_path / f"rank-{rank:05d}.{100 + rank}.trace").write_bytes(b"".join(cut(rows, chance)))
    follower = Follower(TraceFolder(tmp_path), shipped())
    follower.check()
    assert judged(follower, shipped()) == expected


@pytest.mark.torch
@pytest.mark.parametrize("seed", range(3))
def test_a_growing_trace_gives_the_same_answer(
    two_ranks: list[list[Row]], expected: Any, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    (tmp_path / "run.json").write_text('{"schema": "preflight.trace/1"}')
    follower = Follower(TraceFolder(tmp_path), shipped())
    waiting = {rank: cut(rows, chance) for rank, rows in enumerate(two_ranks)}
    told = 0
    streams = [(tmp_path / f"rank-{rank:05d}.{100 + rank}.trace").open("ab") for rank in waiting]
    for stream in streams:
        fcntl.flock(stream, fcntl.LOCK_EX)  # as a writer does
    while any(waiting.values()):
        rank = chance.choice([rank for rank, blocks in waiting.items() if blocks])
        for _ in range(min(len(waiting[rank]), chance.randint(1, 20))):
            streams[rank].write(waiting[rank].pop(0))
        streams[rank].flush()
        told += len(follower.take())
    told += len(follower.take(ended=True))
    assert judged(follower, shipped()) == expected
    assert told == len(expected[1])
    for stream in streams:
        stream.close()


@pytest.mark.torch
def test_violations_of_suppressed_invariants_are_counted_and_not_shown(broken_run: Recorded) -> None:
    held = [
        msgspec.structs.replace(one, suppressed="known") if one.relation == "gradients-cleared" else one
        for one in shipped()
    ]
    follower = Follower(TraceFolder(broken_run.trace), held)
    follower.check()
    report = report_of(follower, held, "test")
    assert report.watched is not None
    assert not [one for one in report.violations if one.relation == "gradients-cleared"]
    assert report.watched.suppressed_violations == 1
    assert any("1 alarm of suppressed invariants" in note for note in report.notes)


def test_nothing_that_could_be_judged_is_undecided(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"schema": "preflight.trace/1"}')
    follower = Follower(TraceFolder(tmp_path), shipped())
    follower.check()
    report = report_of(follower, shipped(), "test")
    assert report.verdict == "UNKNOWN"
    assert report.notes[0] == "nothing was recorded, so nothing could be judged"


@pytest.mark.torch
def test_a_rank_that_was_killed_does_not_hold_up_the_others(
    two_ranks: list[list[Row]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "DEAD_AFTER", 0.0)
    (tmp_path / "run.json").write_text('{"schema": "preflight.trace/1"}')
    follower = Follower(TraceFolder(tmp_path), shipped())
    short = [row for row in two_ranks[1] if row[0] != "end"][: len(two_ranks[1]) // 4]
    for rank, rows in enumerate((two_ranks[0], short)):
        (tmp_path / f"rank-{rank:05d}.{100 + rank}.trace").write_bytes(block(payload(rows)))
    found = follower.take()  # nobody holds the lock of the second file: its process has gone
    # The rows of one run stand for both ranks, which rightly are told to do the same work.
    own = [one for one in found if one.relation != "ranks-share-work"]
    assert [(one.first_step, one.ranks) for one in own] == [(12, (0,))]
