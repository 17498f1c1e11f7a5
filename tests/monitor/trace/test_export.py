"""Exports: each row once, in a form that other programs read."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from preflight.errors import InputError, TraceError, UsageError
from preflight.monitor.trace.export import export
from preflight.monitor.trace.seal import seal

from ..rows import begin, end
from ..traces import rank, row, write


def _lines(path: Path) -> list[dict[str, Any]]:
    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is not JSON")

    return [json.loads(line, parse_constant=refuse) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "trace"
    path.mkdir()
    rank(path, 1, 2)
    rank(path, 0, 2)
    return path


@pytest.mark.parametrize("sealed", [False, True])
def test_json_lines_hold_every_row(folder: Path, tmp_path: Path, sealed: bool) -> None:
    if sealed:
        seal(folder)
    written = export(folder, tmp_path / "out")
    assert {kind: rows for kind, (_, rows) in written.items()} == {
        "begin": 2,
        "call": 48,
        "end": 2,
        "scalar": 8,
        "state": 8,
    }
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(f"{kind}.jsonl" for kind in written)
    scalars = _lines(written["scalar"][0])
    assert [(line["rank"], line["pid"], line["i"]) for line in scalars] == [
        (r, 100 + r, i) for r in (0, 1) for i in range(4)
    ]
    assert [line["value"] for line in scalars[:4]] == [0.5, "NaN", "Infinity", None]
    assert _lines(written["state"][0])[0]["norm"] == [1.5, None, "NaN"]
    assert _lines(written["begin"][0])[1]["argv"] == ["train.py"]


def test_csv_has_a_column_for_each(folder: Path, tmp_path: Path) -> None:
    odd = [row("call", q=1, name='a,b\n"c" \ud800', args={"x": [1, float("nan")]}, parent=-1)]
    write(folder, "rank-00002.9.trace", [("begin", begin(0, 2, 3, 9)), *odd, ("end", end(2))])
    written = export(folder, tmp_path / "out", ["call", "begin"], "csv")
    with written["call"][0].open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 49
    assert rows[0]["name"] == "forward"
    assert rows[0]["args"] == ""
    assert (rows[-1]["rank"], rows[-1]["name"]) == ("2", 'a,b\n"c" \\ud800')
    assert rows[-1]["args"] == '{"x":[1,"NaN"]}'
    with written["begin"][0].open(encoding="utf-8", newline="") as stream:
        names = next(csv.reader(stream))
    assert len(names) == len(set(names))


def test_parquet_has_types_and_seals_what_was_broken(folder: Path, tmp_path: Path) -> None:
    import duckdb

    rank(folder, 2, 3, ended=False)
    written = export(folder, tmp_path / "out", ["scalar", "begin"], "parquet")
    assert list(folder.glob("*.trace")) == []
    query = f"SELECT rank, pid, role, attempt, i, value FROM '{written['scalar'][0]}' WHERE i = 0"
    assert duckdb.sql(query).fetchall() == [(r, 100 + r, "trainer", 0, 0, 0.5) for r in range(3)]
    assert duckdb.sql(f"SELECT count(*), max(world) FROM '{written['begin'][0]}'").fetchall() == [(3, 3)]
    assert written["scalar"][1] == 12


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_a_file_that_is_there_is_not_written_over(folder: Path, tmp_path: Path, form: Any) -> None:
    first = export(folder, tmp_path / "out", ["call"], form)
    content = first["call"][0].read_bytes()
    with pytest.raises(InputError, match="is there already") as raised:
        export(folder, tmp_path / "out", ["call"], form)
    assert raised.value.hint
    assert first["call"][0].read_bytes() == content
    assert export(folder, tmp_path / "out", ["call"], form, force=True) == first
    assert first["call"][0].read_bytes() == content


def test_an_unknown_kind_names_the_nearest(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no rows of kind scaler") as raised:
        export(folder, tmp_path / "out", ["scaler"])
    assert raised.value.hint == "did you mean scalar?"


def test_a_target_that_is_a_file_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        export(folder, tmp_path / "out")
    with pytest.raises(TraceError, match="does not exist"):
        export(tmp_path / "missing", tmp_path / "other")
