"""Sealing: the same rows in the same order, and the segments stay until the files hold them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preflight.errors import TraceError
from preflight.monitor.collect.encode import block, payload
from preflight.monitor.collect.writer import Writer
from preflight.monitor.trace import seal as sealing
from preflight.monitor.trace import sealed as sealed_module
from preflight.monitor.trace.folder import TraceFolder
from preflight.monitor.trace.gaps import gaps
from preflight.monitor.trace.seal import seal
from preflight.monitor.trace.table_file import sql_columns

from ..rows import ODD_ROWS, ROWS, begin, call, end
from ..traces import content, rank, row, shown, write

pytest.importorskip("duckdb")


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_sealed_run_gives_the_same_batches_and_gaps(tmp_path: Path) -> None:
    rank(tmp_path, 1, 3, iterations=5, dropped=3)
    rank(tmp_path, 0, 3, iterations=4)
    trace = TraceFolder(tmp_path)
    before = [shown(list(trace.batches())), shown(list(trace.batches(by="iteration")))]
    only = shown(list(trace.batches(kinds=frozenset({"state"}))))
    list(trace.poll())
    missing = gaps(trace)
    index = seal(tmp_path)
    assert _names(tmp_path) == sorted([*(f"{kind}.parquet" for kind in index.tables), "sealed.json"])
    assert {kind: table.rows for kind, table in index.tables.items()} == {
        "begin": 2,
        "call": 54,
        "end": 2,
        "scalar": 9,
        "state": 9,
    }
    trace = TraceFolder(tmp_path)
    assert [shown(list(trace.batches())), shown(list(trace.batches(by="iteration")))] == before
    batches = trace.batches(kinds=frozenset({"state"}))
    assert shown([batch for batch in batches if batch.tables]) == [batch for batch in only if batch[2]]
    assert shown(list(trace.poll())) == before[0]
    assert list(trace.poll()) == []
    assert gaps(trace) == missing
    assert [(p.rank, p.attempt, p.iteration) for p in trace.processes] == [(0, 0, 3), (1, 0, 4)]


@pytest.mark.slow
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.lists(ROWS | ODD_ROWS, min_size=1, max_size=10), min_size=1, max_size=3))
def test_any_rows_come_back_as_they_were(tmp_path: Path, blocks: list[list[Any]]) -> None:
    folder = tmp_path / "trace"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    write(folder, "rank-00000.7.trace", *blocks)
    before = shown(list(TraceFolder(folder).batches()))
    seal(folder, broken=True)
    assert shown(list(TraceFolder(folder).batches())) == before


def test_a_machine_that_is_no_word_is_none(tmp_path: Path) -> None:
    write(tmp_path, "rank-00000.7.trace", [("begin", begin(host=[]))])
    [process] = TraceFolder(tmp_path).identified()
    assert process.host is None


def test_kinds_and_columns_of_a_later_version_come_back(tmp_path: Path) -> None:
    text = b'{"tables":{"new kind":{"q":[1,2],"v":[null,{"a":NaN}]},"end":{"q":[3],"later":["x"]}}}'
    (tmp_path / "rank-00000.7.trace").write_bytes(block(payload([("begin", begin())])) + block(text))
    before = shown(list(TraceFolder(tmp_path).batches()))
    assert "later" in before[1][2]["end"]
    seal(tmp_path)
    assert shown(list(TraceFolder(tmp_path).batches())) == before
    assert "new_kind.parquet" in _names(tmp_path)


def test_large_runs_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rank(tmp_path, 0, 1, iterations=30)
    before = shown(list(TraceFolder(tmp_path).batches()))
    monkeypatch.setattr(sealing, "ROWS_AT_ONCE", 7)
    monkeypatch.setattr(sealed_module, "ROWS_AT_ONCE", 20)
    seal(tmp_path)
    assert shown(list(TraceFolder(tmp_path).batches())) == before


def test_a_run_that_is_resumed_in_the_same_folder_is_sealed_again(tmp_path: Path) -> None:
    rank(tmp_path, 0, 1, pid=10, wall=1000.0)
    before = content(list(TraceFolder(tmp_path).batches()))
    seal(tmp_path)
    rank(tmp_path, 0, 1, pid=20, wall=2000.0, iterations=2)
    mixed = TraceFolder(tmp_path)
    rows = content(list(mixed.batches()))
    assert {key: value for key, value in rows.items() if "10" in key[0]} == before
    assert [(p.pid, p.attempt) for p in mixed.processes] == [(10, 0), (20, 1)]
    index = seal(tmp_path)
    assert content(list(TraceFolder(tmp_path).batches())) == rows
    assert _names(tmp_path) == sorted([*(f"{kind}.2.parquet" for kind in index.tables), "sealed.json"])
    assert seal(tmp_path) == index  # nothing is left to do


def test_a_process_without_an_end_is_sealed_when_asked_for(tmp_path: Path) -> None:
    path = rank(tmp_path, 0, 1, ended=False)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(TraceError, match="has no end") as raised:
        seal(tmp_path)
    assert raised.value.hint
    trace = TraceFolder(tmp_path)
    list(trace.poll())
    trace.finish()
    missing = gaps(trace)
    before = shown(list(trace.batches()))
    seal(tmp_path, broken=True)
    trace = TraceFolder(tmp_path)
    assert shown(list(trace.poll())) == before
    assert gaps(trace) == missing
    assert "rank-00000.100.trace" not in _names(tmp_path)


def test_a_damaged_segment_is_kept_beside_what_could_be_read(tmp_path: Path) -> None:
    path = rank(tmp_path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    seal(tmp_path)
    assert (tmp_path / "rank-00000.100.trace.damaged").read_bytes() == bytes(data)
    trace = TraceFolder(tmp_path)
    list(trace.poll())
    assert [gap.what for gap in gaps(trace)] == ["no run", "damage"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_a_process_that_still_writes_is_not_sealed(tmp_path: Path) -> None:
    import socket

    trace = Writer(tmp_path / "rank-00000.7.trace", interval=3600)
    trace.put("begin", begin(host=socket.gethostname()))
    trace.flush()
    with pytest.raises(TraceError, match="still being written"):
        seal(tmp_path, broken=True)
    trace.put("call", call(1))
    trace.close(end(2))
    seal(tmp_path)
    assert sum(batch.block.rows for batch in TraceFolder(tmp_path).batches()) == 3


@pytest.mark.parametrize("step", ["_write", "_read_back", "write_whole"])
def test_an_interruption_leaves_the_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = rank(tmp_path)
    data = path.read_bytes()
    before = shown(list(TraceFolder(tmp_path).batches()))

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(sealing if step == "write_whole" else sealing._Sealing, step, fail)
        with pytest.raises(TraceError, match="No space left on device"):
            seal(tmp_path)
    assert path.read_bytes() == data
    assert shown(list(TraceFolder(tmp_path).batches())) == before
    seal(tmp_path)
    assert shown(list(TraceFolder(tmp_path).batches())) == before


def test_files_that_do_not_hold_the_rows_are_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = rank(tmp_path)
    insert = sealing._Sealing._insert

    def forgetful(self: Any, kind: str) -> None:
        if kind == "scalar":
            for column in self._waiting["scalar"][0].values():
                del column[-1]
            for mark in self._waiting["scalar"][1].values():
                del mark[-1]
        insert(self, kind)

    monkeypatch.setattr(sealing._Sealing, "_insert", forgetful)
    with pytest.raises(TraceError, match="does not hold the rows"):
        seal(tmp_path)
    assert _names(tmp_path) == [path.name]


def test_a_crash_after_the_index_was_written_is_cleaned_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = rank(tmp_path)
    before = shown(list(TraceFolder(tmp_path).batches()))
    with monkeypatch.context() as patched:
        patched.setattr(sealing, "_clean", lambda *_: None)
        seal(tmp_path)
    assert path.exists()
    assert shown(list(TraceFolder(tmp_path).batches())) == before
    seal(tmp_path)
    assert not path.exists()


def test_a_folder_without_a_process_has_nothing_to_seal(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"schema": "preflight.trace/1"}')
    with pytest.raises(TraceError, match="nothing to seal"):
        seal(tmp_path)


def test_an_empty_segment_is_sealed_too(tmp_path: Path) -> None:
    (tmp_path / "rank-00000.7.trace").write_bytes(b"")
    index = seal(tmp_path, broken=True)
    assert index.tables == {}
    assert [process.file for process in TraceFolder(tmp_path).processes] == ["rank-00000.7.trace"]


def test_the_columns_can_be_asked_for_in_sql(tmp_path: Path) -> None:
    import duckdb

    rank(tmp_path)
    write(
        tmp_path, "rank-00001.8.trace", [("begin", begin(0, 1, 2, 8)), row("scalar", q=1, value=2.5), ("end", end(2))]
    )
    seal(tmp_path)
    query = f"SELECT process, q, value FROM '{tmp_path / 'scalar.parquet'}' WHERE value > 2 AND isfinite(value)"
    assert duckdb.sql(query).fetchall() == [(1, 1, 2.5)]
    names = [name for name, *_ in duckdb.sql(f"DESCRIBE SELECT * FROM '{tmp_path / 'scalar.parquet'}'").fetchall()]
    assert names == list(sql_columns("scalar"))


@pytest.mark.parametrize("hurt", ["gone", "cut", "flipped", "older"])
@pytest.mark.parametrize("kind", ["begin", "end", "call", "state"])
def test_a_table_that_is_damaged_costs_only_itself(tmp_path: Path, kind: str, hurt: str) -> None:
    rank(tmp_path, 0, 2, iterations=4)
    rank(tmp_path, 1, 2, iterations=4)
    index = seal(tmp_path)
    whole = content(list(TraceFolder(tmp_path).batches()))
    rows = index.tables[kind].rows
    file = tmp_path / f"{kind}.parquet"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    if hurt == "gone":
        file.unlink()
    else:
        file.write_bytes(data[: len(data) // 2] if hurt in ("cut", "older") else data)
    if hurt == "older":  # which wrote no checksums
        tables = {name: msgspec.structs.replace(one, crc=None) for name, one in index.tables.items()}
        (tmp_path / "sealed.json").write_bytes(msgspec.json.encode(msgspec.structs.replace(index, tables=tables)))
    trace = TraceFolder(tmp_path)
    batches = list(trace.poll())
    assert content(batches) == {key: value for key, value in whole.items() if key[1] != kind}
    [gap] = [one for one in gaps(trace) if one.what != "no run"]
    assert (gap.what, gap.file, gap.rows) == ("lost", f"{kind}.parquet", rows)
    assert gap.text.startswith(f"{kind}.parquet is {'missing' if hurt == 'gone' else 'damaged'}")
    assert gap.text.endswith(f"; its {rows} rows of kind {kind} are lost")


def test_of_a_failure_to_write_only_the_sentence_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb

    rank(tmp_path)
    sentence = 'Could not write file "x/call.parquet": No space left on device'
    told = {"exception_type": "IO", "exception_message": sentence, "errno": "28"}

    def fail(*_: object) -> None:
        raise duckdb.IOException(
            f"IO Error: Async write failed for range [offset=0]: {msgspec.json.encode(told).decode()}"
        )

    monkeypatch.setattr(sealing._Sealing, "_write", fail)
    with pytest.raises(TraceError) as raised:
        seal(tmp_path)
    assert str(raised.value) == f"{tmp_path} cannot be sealed: {sentence}"


def test_a_sealing_that_lost_rows_is_not_sealed_over(tmp_path: Path) -> None:
    rank(tmp_path, 0, 1, pid=10, wall=1000.0)
    seal(tmp_path)
    rank(tmp_path, 0, 1, pid=20, wall=2000.0)
    (tmp_path / "state.parquet").write_bytes(b"PAR1")
    before = _names(tmp_path)
    with pytest.raises(TraceError, match=r"cannot be sealed again: state\.parquet is damaged"):
        seal(tmp_path)
    assert _names(tmp_path) == before


@pytest.mark.parametrize("damaged", [True, False])
@pytest.mark.parametrize("again", [1, 2])
def test_tables_are_read_without_their_index(tmp_path: Path, damaged: bool, again: int) -> None:
    rank(tmp_path, 1, 2, iterations=5)
    rank(tmp_path, 0, 2, iterations=4)
    write(
        tmp_path, "worker-00000.200.trace", [("begin", begin(0, 0, 2, 200, role="worker", parent=100)), ("end", end(1))]
    )
    before = shown(list(TraceFolder(tmp_path).batches()))
    seal(tmp_path)
    if again == 2:
        rank(tmp_path, 1, 2, pid=300, wall=2000.0)
        before = shown(list(TraceFolder(tmp_path).batches()))
        seal(tmp_path)
    place = tmp_path / "sealed.json"
    if damaged:
        place.write_bytes(place.read_bytes()[:70])
    else:
        place.unlink()
    trace = TraceFolder(tmp_path)
    assert shown(list(trace.poll())) == before
    trace.finish()
    lost = [gap.text for gap in gaps(trace) if gap.what == "damage"]
    assert len(lost) == 1
    assert ("is damaged" if damaged else "there is no sealed.json") in lost[0]
    (tmp_path / ("call.2.parquet" if again == 2 else "call.parquet")).write_bytes(b"PAR1")
    trace = TraceFolder(tmp_path)
    assert {kind for batch in trace.poll() for kind in batch.tables} == {"begin", "end", "scalar", "state"}
    assert any("its rows of kind call are lost" in gap.text for gap in gaps(trace))


def test_tables_of_a_sealing_that_was_cut_short_are_left_to_the_segments(tmp_path: Path) -> None:
    path = rank(tmp_path, 0, 1)
    kept = path.read_bytes()
    seal(tmp_path)
    (tmp_path / "sealed.json").unlink()
    path.write_bytes(kept)
    trace = TraceFolder(tmp_path)
    assert trace.sealed is None
    assert len(trace.processes) == 1
