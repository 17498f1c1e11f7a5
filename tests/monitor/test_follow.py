"""The same trace gives the same answer, finished or growing, in whatever pieces its rows come."""

from __future__ import annotations

import fcntl
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from preflight.monitor import follow
from preflight.monitor.collect.columns import TABLES, THREADS, WRITER
from preflight.monitor.collect.encode import block, payload
from preflight.monitor.follow import Follower
from preflight.monitor.library_of import shipped
from preflight.monitor.outcome import report_of
from preflight.monitor.trace.folder import TraceFolder
from preflight.monitor.trace.process import rows_of
from preflight.monitor.trace.reader import Reader
from preflight.monitor.trace.seal import seal
from preflight.vocabulary.invariant import Invariant

from .conftest import Recorded
from .learn.recorded import training
from .traces import row

Row = tuple[str, tuple[Any, ...]]


def rows_in(trace: Path, rank: int, world: int) -> list[Row]:
    """All rows of a recorded run in the order of their numbers, as if a rank of several had written them."""
    found: list[tuple[int, Row]] = []
    for batch in TraceFolder(trace).batches():
        for kind, columns in batch.tables.items():
            for found_row in rows_of(columns):
                told = dict(found_row)
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


def _healthy(folder: Path) -> tuple[Path, list[bytes]]:
    """A healthy training of 12 iterations, and its blocks: the beginning, one for each iteration, the end."""
    (path,) = training(folder).glob("*.trace")
    (data, ends) = (path.read_bytes(), [one.end for one in Reader(path).poll()])
    return path, [data[start:end] for start, end in pairwise([0, *ends])]


def _damaged(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def _not_kept(i: int) -> bytes:
    error = "rows dropped, as the disk was full or too slow: 7 call"
    return block(payload([row("trouble", q=100 * i, i=i, where=WRITER, error=error)]))


@pytest.mark.parametrize("growing", [False, True])
@pytest.mark.parametrize("how", ["damaged", "not written"])
def test_nothing_is_judged_of_a_process_behind_rows_that_are_lost(tmp_path: Path, how: str, growing: bool) -> None:
    path, blocks = _healthy(tmp_path / "run")
    for at in range(len(blocks) - 1):
        hole = _damaged(blocks[at]) if how == "damaged" else _not_kept(at - 1)
        path.write_bytes(b"".join([*blocks[:at], hole, *blocks[at + 1 :]]))
        follower = Follower(TraceFolder(path.parent), shipped())
        follower.take(ended=True) if growing else follower.check()
        report = report_of(follower, shipped(), "test")
        assert report.watched is not None
        assert (report.verdict, report.violations) == ("UNKNOWN", ())
        gap = next(one for one in report.watched.gaps if one.what == "unjudged")
        assert (
            gap.text == f"nothing of rank 0 is judged from iteration {max(at - 1, 0)} on: what was lost may decide it"
        )
        assert gap.text in report.notes
        assert follower.judged().get("step-updates", 0) == max(at - 1, 0)
        assert "no end" not in {one.what for one in report.watched.gaps}  # it was read to its end all the same


def test_a_run_whose_recording_ended_since_threads_train_at_once_is_not_decided(tmp_path: Path) -> None:
    path, blocks = _healthy(tmp_path / "run")
    halted = block(payload([row("trouble", q=10**6, i=4, where=THREADS, error="several threads train")]))
    path.write_bytes(b"".join([*blocks[:-1], halted, blocks[-1]]))
    follower = Follower(TraceFolder(path.parent), shipped())
    follower.check()
    report = report_of(follower, shipped(), "test")
    assert (report.verdict, report.violations) == ("UNKNOWN", ())
    assert "rank 0, iteration 4: threads: several threads train" in report.notes


def test_a_loss_is_known_of_when_the_run_was_sealed(tmp_path: Path) -> None:
    path, blocks = _healthy(tmp_path / "run")
    path.write_bytes(b"".join([*blocks[:5], _damaged(blocks[5]), *blocks[6:]]))
    before = Follower(TraceFolder(path.parent), shipped())
    before.check()
    seal(path.parent, broken=True)
    after = Follower(TraceFolder(path.parent), shipped())
    after.check()
    assert judged(after, shipped()) == judged(before, shipped())
    assert [process.unjudged for process in after.folder.processes] == [4]


def test_a_run_of_which_a_table_is_lost_is_not_decided(tmp_path: Path) -> None:
    path, _ = _healthy(tmp_path / "run")
    seal(path.parent)
    for kind, verdict in (("memory", "GO"), ("state", "UNKNOWN")):
        (path.parent / f"{kind}.parquet").unlink(missing_ok=True)
        follower = Follower(TraceFolder(path.parent), shipped())
        follower.check()
        assert report_of(follower, shipped(), "test").verdict == verdict


def test_a_cut_at_the_end_is_no_loss_before_anything(tmp_path: Path) -> None:
    path, blocks = _healthy(tmp_path / "run")
    path.write_bytes(b"".join([*blocks[:8], blocks[8][:-3]]))
    follower = Follower(TraceFolder(path.parent), shipped())
    follower.check()
    report = report_of(follower, shipped(), "test")
    assert report.watched is not None
    assert report.verdict == "GO"
    assert {one.what for one in report.watched.gaps} == {"no run", "no end", "damage"}
    assert follower.judged()["step-updates"] == 7


def test_ranks_go_on_without_the_one_of_which_rows_are_lost(tmp_path: Path) -> None:
    folder = training(tmp_path / "run", world=2, apart_at=6)
    path = folder / "rank-00001.101.trace"
    data, ends = path.read_bytes(), [one.end for one in Reader(path).poll()]
    path.write_bytes(data[: ends[3]] + _damaged(data[ends[3] : ends[4]]) + data[ends[4] :])
    follower = Follower(TraceFolder(folder), shipped())
    follower.check()
    assert [(process.rank, process.unjudged) for process in follower.folder.processes] == [(0, None), (1, 3)]
    assert follower.judged()["step-updates"] == 12 + 3
    assert not follower.violations()  # the ranks part in iteration 6, of which one of them says nothing that is known
