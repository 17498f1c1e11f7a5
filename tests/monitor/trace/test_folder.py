"""Trace folders: who ran, in which order their rows come, and what is missing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from preflight.errors import TraceError
from preflight.monitor.collect.columns import PAUSED, REPEATED
from preflight.monitor.collect.encode import block, payload
from preflight.monitor.collect.writer import Writer
from preflight.monitor.trace.folder import TraceFolder
from preflight.monitor.trace.gaps import gaps
from preflight.monitor.trace.run_file import write_run
from preflight.vocabulary.trace import RecordedRun, TraceGap

from ..rows import begin, call, end
from ..traces import rank, row, write

locks = pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_run(tmp_path, RecordedRun(program="train.py", world_size=1))
    return tmp_path


def _gaps(path: Path, finish: bool = True) -> list[TraceGap]:
    trace = TraceFolder(path)
    for _ in trace.poll():
        pass
    if finish:
        trace.finish()
    return gaps(trace)


def _said(path: Path, finish: bool = True) -> list[tuple[str, str]]:
    return [(gap.what, gap.text) for gap in _gaps(path, finish)]


def test_a_whole_run_misses_nothing(folder: Path) -> None:
    rank(folder, 0, 2)
    rank(folder, 1, 2)
    write(
        folder,
        "worker-00000.200.trace",
        [("begin", begin(0, 0, 2, 200, role="worker", parent=100)), ("end", end(1))],
    )
    trace = TraceFolder(folder)
    batches = list(trace.poll())
    assert [(process.role, process.rank, process.pid, process.attempt) for process in trace.processes] == [
        ("trainer", 0, 100, 0),
        ("worker", 0, 200, 0),
        ("trainer", 1, 101, 0),
    ]
    assert {batch.process.iteration for batch in batches} == {3, 0}
    assert gaps(trace) == []
    assert trace.run == RecordedRun(program="train.py", world_size=1)
    assert [p.rows.get("call", 0) for p in trace.processes] == [24, 0, 24]


def test_batches_come_by_rank_or_by_iteration(folder: Path) -> None:
    rank(folder, 0, 2, iterations=3)
    rank(folder, 1, 2, iterations=5)
    trace = TraceFolder(folder)
    order = [(batch.process.rank, batch.tables.get("call", {}).get("i", [-1])[0]) for batch in trace.batches()]
    assert order == [(0, -1), (0, 0), (0, 1), (0, 2), (0, -1), *((1, i) for i in (-1, 0, 1, 2, 3, 4, -1))]
    order = [
        (batch.process.rank, batch.tables["call"]["i"][0])
        for batch in trace.batches(by="iteration")
        if "call" in batch.tables
    ]
    assert order == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2), (1, 3), (1, 4)]
    only = [set(batch.tables) for batch in trace.batches(kinds=frozenset({"scalar"}))]
    assert set().union(*only) == {"scalar"}


def test_a_growing_folder_gives_each_batch_once(folder: Path) -> None:
    trace = TraceFolder(folder)  # there is run.json, and no process yet
    assert list(trace.poll()) == []
    first = Writer(folder / "rank-00000.7.trace", interval=3600)
    first.put("begin", begin(0, 0, 2, 7))
    first.flush()
    assert [batch.process.rank for batch in trace.poll()] == [0]
    second = Writer(folder / "rank-00001.8.trace", interval=3600)
    second.put("begin", begin(0, 1, 2, 8))
    first.put("call", call(1, i=5))
    first.flush()
    second.flush()
    assert [(batch.process.rank, list(batch.tables)) for batch in trace.poll()] == [(0, ["call"]), (1, ["begin"])]
    assert list(trace.poll()) == []
    first.close(end(2, 5))
    second.close(end(1, 5))
    assert [list(batch.tables) for batch in trace.poll()] == [["end"], ["end"]]
    assert [process.iteration for process in trace.processes] == [5, 5]


def test_a_rank_that_changed_its_number_has_the_one_it_said_last(folder: Path) -> None:
    write(folder, "rank-00000.7.trace", [("begin", begin(0, 0, 1, 7))], [("begin", begin(5, 3, 4, 7)), ("end", end(9))])
    trace = TraceFolder(folder)
    list(trace.poll())
    assert [(process.rank, process.world) for process in trace.processes] == [(3, 4)]


def test_restarts_are_attempts_of_the_rank(folder: Path) -> None:
    rank(folder, 0, 2, pid=10, wall=1000.0, ended=False)
    rank(folder, 1, 2, pid=11, wall=1000.1)
    rank(folder, 0, 2, pid=20, wall=2000.0)
    rank(folder, 1, 2, pid=21, wall=2000.2)
    write(
        folder,
        "worker-00000.22.trace",
        [("begin", begin(0, 0, 2, 22, role="worker", parent=20, wall=2001.0)), ("end", end(1))],
    )
    trace = TraceFolder(folder)
    order = [(batch.process.pid, batch.process.attempt) for batch in trace.batches(by="iteration")]
    assert [attempt for _, attempt in order] == sorted(attempt for _, attempt in order)
    assert [(p.rank, p.pid, p.attempt) for p in trace.processes] == [
        (0, 10, 0),
        (0, 20, 1),
        (0, 22, 1),
        (1, 11, 0),
        (1, 21, 1),
    ]
    said = _said(folder)
    text = "rank 0 stopped without a word: it was killed, or could not write; the last iteration that was recorded is 3"
    assert said == [("no end", text)]


def test_what_is_missing_is_named(folder: Path) -> None:
    rank(folder, 0, 4, iterations=6, dropped=12)
    rank(folder, 1, 4, iterations=3)
    path = rank(folder, 2, 4, iterations=6, ended=False)
    path.write_bytes(path.read_bytes()[:-5])
    assert [what for what, _ in _said(folder)] == ["no rank", "dropped", "no end", "damage", "shorter"]
    absent, dropped, killed, damage, shorter = _gaps(folder)
    assert (absent.text, absent.rank) == ("there is no file of rank 3, of 4 ranks", 3)
    assert (dropped.text, dropped.rows) == ("12 rows of rank 0 were not kept", 12)
    assert (killed.rank, killed.iteration) == (2, 4)
    assert damage.text.startswith("the end of rank-00002.102.trace: the last block is cut, ")
    assert (damage.bytes or 0) > 0
    assert shorter.text == "rank 1 ended at iteration 2, and another rank reached 5"


def test_a_worker_that_its_trainer_ended_is_not_called_killed(folder: Path) -> None:
    rank(folder, 0, 1, pid=100)
    write(folder, "worker-00000.200.trace", [("begin", begin(0, 0, 1, 200, role="worker", parent=100))])
    assert _said(folder) == []
    interrupted = ("end", end(9, 3, how="exception", error="KeyboardInterrupt: "))
    write(folder, "rank-00000.100.trace", [("begin", begin(0, 0, 1, 100)), interrupted])
    assert _said(folder) == [("failed", "rank 0 ended with KeyboardInterrupt in iteration 3")]
    killed_worker = ("end", end(9, 3, how="exception", error="RuntimeError: DataLoader worker (pid 200) is killed"))
    write(folder, "rank-00000.100.trace", [("begin", begin(0, 0, 1, 100)), killed_worker])
    assert [what for what, _ in _said(folder)] == ["failed", "no end"]
    rank(folder, 0, 1, pid=100, ended=False)
    killed = "stopped without a word: it was killed, or could not write"
    assert [text.split("; ")[0] for what, text in _said(folder) if what == "no end"] == [
        f"rank 0 {killed}",
        f"worker 200 of rank 0 {killed}",
    ]


def test_exceptions_that_ended_ranks_are_named_once_each(folder: Path) -> None:
    for number in range(10):
        error = "RuntimeError: first\nof many" if number else "KeyError: 'x'"
        failed = ("end", end(9, 3, how="exception", error=error))
        write(folder, f"rank-{number:05d}.{number + 7}.trace", [("begin", begin(0, number, 10, number + 7)), failed])
    asked = ("end", end(9, 5, how="signal", error="stopped by preflight monitor"))
    write(folder, "rank-00010.98.trace", [("begin", begin(0, 10, 11, 98)), asked])
    again = ("end", end(9, 5, how="exception", error="KeyboardInterrupt: "))
    write(folder, "rank-00000.99.trace", [("begin", begin(0, 0, 10, 99, wall=5000.0)), again])
    assert [text for what, text in _said(folder) if what == "failed"] == [
        "rank 0 ended with KeyError: 'x' in iteration 3",
        "rank 0, start 2, ended with KeyboardInterrupt in iteration 5",
        "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 1 more ended with RuntimeError: first of many in iteration 3",
    ]


@pytest.mark.parametrize(
    ("code", "ranks", "why"),
    [
        (137, 1, "the program was ended by SIGKILL"),
        (128 + 99, 1, "it was killed, or could not write"),
        (1, 1, "it was killed, or could not write"),
        (137, 2, "it was killed, or could not write"),
    ],
)
def test_the_signal_that_ended_the_only_rank_is_named(tmp_path: Path, code: int, ranks: int, why: str) -> None:
    write_run(tmp_path, RecordedRun(exit_code=code))
    for number in range(ranks):
        rank(tmp_path, number, ranks, ended=False)
    said = [text.split("; ")[0] for what, text in _said(tmp_path) if what == "no end"]
    assert said == [f"rank {number} stopped without a word: {why}" for number in range(ranks)]


def test_the_launcher_knows_of_ranks_that_wrote_nothing(tmp_path: Path) -> None:
    write_run(tmp_path, RecordedRun(world_size=2))
    rank(tmp_path, 0, 1)
    assert _said(tmp_path) == [("no rank", "there is no file of rank 1, of 2 ranks")]


def test_damage_inside_a_file_is_named_with_its_bytes(folder: Path) -> None:
    path = rank(folder)
    data = bytearray(path.read_bytes())
    first = len(block(payload([("begin", begin(0, 0, 1, 100))])))
    data[first + 20] ^= 1
    path.write_bytes(data)
    (gap,) = _gaps(folder)
    assert gap.what == "damage"
    assert gap.text.startswith(f"bytes {first} to {first + (gap.bytes or 0)} of rank-00000.100.trace: ")


@locks
def test_a_process_that_runs_is_told_from_one_that_was_killed(folder: Path) -> None:
    import socket

    trace = Writer(folder / "rank-00000.7.trace", interval=3600)
    trace.put("begin", begin(host=socket.gethostname()))
    trace.put("call", call(1, i=3))
    trace.flush()
    text = "rank 0 still runs; the last iteration that was recorded is 3"
    assert _said(folder, finish=False) == [("running", text)]
    trace.close()
    text = "rank 0 stopped without a word: it was killed, or could not write; the last iteration that was recorded is 3"
    assert _said(folder, finish=False) == [("no end", text)]


def test_a_process_of_another_machine_may_run_or_not(folder: Path) -> None:
    write(folder, "rank-00000.7.trace", [("begin", begin(host="elsewhere"))])
    text = "rank 0 stopped without a word: it was killed, or could not write, or runs elsewhere"
    assert _said(folder, finish=False) == [("no end", text)]


def test_clocks_that_jump_are_named(folder: Path) -> None:
    hour = 3600 * 10**9
    rows = [row("scalar", q=q, t=t, i=q, name="loss", value=0.1) for q, t in enumerate([hour, hour + 5])]
    back = [row("scalar", q=9, t=5, i=2, name="loss", value=0.1), ("end", end(10, 2, t=6))]
    write(folder, "rank-00000.7.trace", [("begin", begin(0, 0, 2, 7)), *rows], back)
    rank(folder, 1, 2, wall=1060.0, iterations=3)
    said = _said(folder)
    assert said == [
        ("clock", "the clock of rank 0 went back at iteration 1; times across it are not comparable"),
        ("clock", "the clock of here was set between the starts of its processes: rank 0 reads -30.0 s"),
        ("clock", "the clock of here was set between the starts of its processes: rank 1 reads +30.0 s"),
    ]


def test_two_processes_of_one_rank_at_the_same_time_are_named(folder: Path) -> None:
    rank(folder, 0, 1, pid=10, wall=1000.0, t=0, iterations=4)
    write(
        folder, "rank-00000.11.trace", [("begin", begin(0, 0, 1, 11, wall=900.0, t=0))], [("end", end(1, 3, t=10**12))]
    )
    assert _said(folder) == [
        ("twice", "processes 11 and 10 ran at the same time, and both say that they are rank 0"),
        ("clock", "the clock of here was set between the starts of its processes: rank 0 reads -50.0 s"),
        ("clock", "the clock of here was set between the starts of its processes: rank 0 reads +50.0 s"),
    ]


def test_what_the_recorder_says_of_itself_is_handed_on(folder: Path) -> None:
    rows = [("begin", begin()), row("trouble", q=1, i=4, where="writer", error="rows dropped: 5 call")]
    rows += [row("thinned", q=2, i=5, what="tensor", every=4, reason="above the budget")]
    rows += [row("thinned", q=3, i=9, what="tensor", every=1, reason="above the budget"), ("end", end(9))]
    write(folder, "rank-00000.7.trace", rows)
    assert _said(folder) == [
        ("trouble", "rank 0, iteration 4: writer: rows dropped: 5 call"),
        ("thinned", "rank 0 recorded tensor in 1 of 4 iterations from iteration 5 on: above the budget"),
        ("thinned", "rank 0 recorded tensor in every iteration again from iteration 9 on: above the budget"),
    ]


def test_of_repeated_passes_it_is_said_how_many_are_told(folder: Path) -> None:
    rows = [("begin", begin())]
    rows += [
        row("thinned", q=number, i=5 * number, what=REPEATED, every=most, reason="budget")
        for number, most in enumerate((4, 0), 1)
    ]
    write(folder, "rank-00000.7.trace", [*rows, ("end", end(9))])
    assert _said(folder) == [
        ("thinned", "rank 0 recorded repeated passes of one place only the first 4 times from iteration 5 on: budget"),
        ("thinned", "rank 0 recorded repeated passes one by one again from iteration 10 on: budget"),
    ]


def test_of_pauses_it_is_said_how_many_iterations_are_told_between_them(folder: Path) -> None:
    rows = [("begin", begin())]
    rows += [row("thinned", q=1, i=203, what=PAUSED, every=344, reason="budget")]
    rows += [row("thinned", q=2, i=900, what=PAUSED, every=1, reason="budget")]
    write(folder, "rank-00000.7.trace", [*rows, ("end", end(9))])
    assert _said(folder) == [
        ("thinned", "rank 0 recorded iterations a few at a time, 4 in some 344, from iteration 203 on: budget"),
        ("thinned", "rank 0 recorded iterations one after the other again from iteration 900 on: budget"),
    ]


def test_a_file_without_a_beginning_goes_by_its_name(folder: Path) -> None:
    write(folder, "rank-00000.7.trace", [("call", call(1)), ("end", end(2))])
    (folder / "rank-00001.8.trace").write_bytes(b"")
    assert _said(folder) == [
        ("no begin", "rank-00000.7.trace does not say which process wrote it"),
        ("no begin", "rank-00001.8.trace does not say which process wrote it"),
        ("no end", "rank 1 stopped without a word: it was killed, or could not write"),
    ]


def test_a_strange_file_is_named_and_the_rest_is_read(folder: Path) -> None:
    rank(folder)
    (folder / "rank-00001.9.trace").write_bytes(b"something else")
    (folder / "notes.txt").write_text("not ours")
    assert _said(folder) == [("damage", "rank-00001.9.trace is no trace file")]


def test_a_damaged_run_json_costs_only_itself(tmp_path: Path) -> None:
    rank(tmp_path)
    assert _said(tmp_path) == [("no run", "there is no run.json")]
    (tmp_path / "run.json").write_text("{")
    ((what, text),) = _said(tmp_path)
    assert what == "no run"
    assert "damaged" in text


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.write_text("x"), "is a file"),
        (lambda path: path.mkdir(), "holds no trace"),
        (lambda path: (path.mkdir(), (path / "rank-00000.7.trace").write_text("text")), "is no trace file"),
        (lambda path: (path.mkdir(), (path / "run.json").write_text('{"schema": "preflight.trace/9"}')), "format 9"),
        (lambda path: (path.mkdir(), (path / "sealed.json").write_text('{"schema": "preflight.trace/9"}')), "format 9"),
        (lambda path: (path.mkdir(), (path / "sealed.json").write_text("{}")), "damaged"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, make: object, said: str) -> None:
    path = tmp_path / "trace"
    make(path)  # type: ignore[operator]
    with pytest.raises(TraceError, match=said):
        TraceFolder(path)


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        (".", "did you mean runs/train-2, the newest in it?"),
        ("runs", "did you mean runs/train-2, the newest in it?"),
        ("runs/trian-2", "did you mean runs/train-2?"),
        ("runs/train-2/run.json", "did you mean runs/train-2?"),
        ("runs/train-1/call.parquet", "did you mean runs/train-1?"),
        ("runs/nothing/like/it", None),
    ],
)
def test_the_nearest_trace_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, hint: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("preflight.monitor.trace.folder.RECORDINGS", Path("runs"))
    for number in (2, 1):
        at = tmp_path / "runs" / f"train-{number}" / "run.json"
        at.parent.mkdir(parents=True)
        at.write_text("{}")
        os.utime(at, ns=(number, number))
    (tmp_path / "runs" / "train-1" / "call.parquet").write_bytes(b"")
    with pytest.raises(TraceError) as refused:
        TraceFolder(path)
    assert refused.value.hint == hint


def test_a_segment_of_a_newer_format_is_refused(folder: Path) -> None:
    path = rank(folder)
    path.write_bytes(path.read_bytes().replace(b"PFB1", b"PFB2"))
    with pytest.raises(TraceError, match="format 2"):
        list(TraceFolder(folder).poll())


def test_a_process_that_only_helps_is_no_rank(folder: Path) -> None:
    """A script that starts its ranks itself, and a pool that evaluates, each with rows of their own."""

    def helper(pid: int, parent: int, *more: tuple[str, tuple[object, ...]]) -> None:
        rows = [("begin", begin(0, 0, 1, pid, parent=parent)), ("call", call(1, i=0, name="seed"))]
        write(folder, f"rank-00000.{pid}.trace", [*rows, *more])

    done = [row("iteration", q=90, i=3, s=4)]
    path = rank(folder, 0, 1, pid=100, parent=7)
    path.write_bytes(path.read_bytes() + block(payload(done)))
    helper(7, 1, ("end", end(9, 0)))
    helper(200, 100)
    assert _said(folder) == []
    trace = TraceFolder(folder)
    list(trace.poll())
    assert {process.pid: (process.aside, process.attempt) for process in trace.processes} == {
        7: (True, 0),
        100: (False, 0),
        200: (True, 0),
    }
    helper(7, 1, ("end", end(9, 0, how="exception", error="ProcessRaisedException: x")))
    helper(300, 8)
    assert [text for _, text in _said(folder)] == [
        "process 7, which trains nothing ended with ProcessRaisedException: x in iteration 0",
        "rank 0, start 2 stopped without a word: it was killed, or could not write; the last iteration that was recorded is 0",
    ]


def test_what_a_helper_had_trouble_with_is_told_of_it(folder: Path) -> None:
    path = rank(folder, 0, 1, pid=100)
    path.write_bytes(path.read_bytes() + block(payload([row("iteration", q=90, i=3, s=4)])))
    trouble = row("trouble", q=1, i=-1, where="writer", error="rows dropped: 5 call")
    write(folder, "rank-00000.200.trace", [("begin", begin(0, 0, 1, 200, parent=100)), trouble, ("end", end(9))])
    assert [text for _, text in _said(folder)] == [
        "process 200, which trains nothing, iteration -1: writer: rows dropped: 5 call"
    ]


def test_a_rank_that_died_before_its_first_iteration_is_no_helper(folder: Path) -> None:
    """Its launcher trained nothing, or something of another world."""
    for number in range(2):
        path = rank(folder, number, 2, pid=100 + number, parent=7, iterations=4 if number else 0)
        if number:
            path.write_bytes(path.read_bytes() + block(payload([row("iteration", q=90, i=3, s=4)])))
    write(
        folder,
        "rank-00000.7.trace",
        [("begin", begin(0, 0, 1, 7)), row("iteration", q=8, i=0, s=1), ("end", end(9, 0))],
    )
    assert [text for _, text in _said(folder)] == [
        "rank 0 ended before its first iteration, and another rank reached 3"
    ]
