"""The writer: what is put is in the file, whatever happens to the process, the disk and the file."""

from __future__ import annotations

import threading
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from preflight.monitor.collect.columns import HEAVY, TABLES
from preflight.monitor.collect.writer import MANY, Writer

from ..rows import begin, call, end
from .writing import NEVER, column, posix, program, read


def test_what_is_put_is_in_the_file(tmp_path: Path) -> None:
    with_many = Writer(tmp_path / "rank-00000.7.trace")
    rows = [call(q, i=q // 10) for q in range(3 * MANY)]
    with_many.put("begin", begin())
    for row in rows:
        with_many.put("call", row)
    assert with_many.close(end(len(rows)))
    blocks, reader = read(with_many.path)
    assert [
        row for block in blocks if "call" in block.tables for row in zip(*block.tables["call"].values(), strict=True)
    ] == rows
    assert column(with_many.path, "begin", "rank") == [0]
    assert column(with_many.path, "end", "dropped") == [0]
    assert not reader.damage
    assert with_many.error is None
    assert with_many.dropped == 0
    assert with_many.written_bytes == Path(with_many.path).stat().st_size
    assert max(block.rows for block in blocks) <= MANY


@pytest.mark.parametrize("count", [3, 3 * MANY])
def test_several_rows_are_kept_as_one_by_one(tmp_path: Path, count: int) -> None:
    trace = Writer(tmp_path / "rank-00000.7.trace")
    trace.put("call", call(0))
    trace.put_all("call", [call(q) for q in range(1, count)])
    trace.put("call", call(count))
    assert trace.close()
    assert column(trace.path, "call", "q") == [*range(count + 1)]


def test_long_lists_of_several_rows_weigh_as_those_of_one_by_one(tmp_path: Path) -> None:
    one, all_ = (Writer(tmp_path / f"rank-0000{at}.7.trace", interval=NEVER) for at in range(2))
    row: list[Any] = [None] * len(TABLES["state"])
    row[HEAVY["state"]] = list(range(100))
    rows = [tuple(row)] * 5
    for many in rows:
        one.put("state", many)
    all_.put_all("state", rows)
    assert all_._heavy == one._heavy > 0
    for trace in (one, all_):
        trace.close()


def test_a_row_is_written_before_the_end(tmp_path: Path) -> None:
    trace = Writer(tmp_path / "rank-00000.7.trace", interval=0.01)
    trace.put("call", call(1))
    waited = threading.Event()
    for _ in range(3000):
        if trace.written_bytes:
            break
        waited.wait(0.01)
    assert column(trace.path, "call", "q") == [1]
    trace.close()


def test_closing_twice_and_putting_afterwards_do_nothing(tmp_path: Path) -> None:
    trace = Writer(tmp_path / "rank-00000.7.trace")
    assert trace.close(end(1))
    size = Path(trace.path).stat().st_size
    trace.close(end(2))
    for q in range(2 * MANY):
        trace.put("call", call(q))
    assert not trace.flush()
    assert Path(trace.path).stat().st_size == size
    assert len(trace._rows) <= MANY


def test_no_thread_is_left_when_it_is_closed(tmp_path: Path) -> None:
    made = Writer(tmp_path / "a.trace", interval=NEVER)
    made.put("call", call(1))
    assert made.close()
    # The thread gives this back as the last thing it does: at the end of the interpreter it would be cut off anywhere.
    assert made._background._gone.acquire(blocking=False)
    assert not made._background.running


def test_a_file_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    first = Writer(tmp_path / "rank-00000.7.trace")
    first.close(end(1))
    second = Writer(tmp_path / "rank-00000.7.trace")
    second.close(end(2))
    assert Path(second.path).name == "rank-00000.7.2.trace"
    assert column(first.path, "end", "q") == [1]
    assert column(second.path, "end", "q") == [2]


def test_rows_of_several_threads_are_all_there(tmp_path: Path) -> None:
    trace = Writer(tmp_path / "rank-00000.7.trace", interval=0.001)

    def put(thread: int) -> None:
        for at in range(5000):
            trace.put("call", call(10_000 * thread + at))

    threads = [threading.Thread(target=put, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert trace.close()
    assert sorted(column(trace.path, "call", "q")) == [10_000 * t + at for t in range(4) for at in range(5000)]


class _Colour(Enum):
    RED = 1


class _Hostile:
    def __repr__(self) -> str:
        raise AssertionError("its text must not be asked for")

    __str__ = __eq__ = __hash__ = __bool__ = __len__ = __iter__ = __repr__  # type: ignore[assignment]


def test_values_that_json_does_not_know_are_made_safe(tmp_path: Path) -> None:
    circle: list[Any] = []
    circle.append(circle)
    deep: Any = "end"
    for _ in range(5000):
        deep = [deep]
    values = [_Hostile(), {1: _Hostile(), (2, 3): "tuple"}, {"b", "a"}, b"bytes", 2 + 3j, Decimal("1.5"), _Colour.RED]
    values += [circle, deep, 10**5000, "\ud800", float("nan"), -0.0, print, int, Path("a"), {"x": {2, 1}}]
    trace = Writer(tmp_path / "rank-00000.7.trace", interval=NEVER)
    for q, value in enumerate(values):
        trace.put("call", (*call(q)[:-3], value, None, None))
    for wrong in range(len(TABLES["call"])):
        trace.put("call", tuple(_Hostile() if at == wrong else 1 for at in range(len(TABLES["call"]))))
    assert trace.close()
    assert read(trace.path)[1].damage == []
    got = column(trace.path, "call", "args")[: len(values)]
    name = f"<{_Hostile.__module__}._Hostile>"
    assert got[:7] == [name, {"1": name, "[2,3]": "tuple"}, ["a", "b"], "b'bytes'", "(2+3j)", "1.5", "_Colour.RED"]
    assert str(got[7]).count("[") == 12
    assert str(got[8]).count("[") == 12
    assert got[9] == f"<integer of {(10**5000).bit_length()} bits>"
    assert [repr(value) for value in got[10:13]] == [r"'\ud800'", "nan", "-0.0"]
    assert got[13:] == ["builtins.print", "builtins.int", "a", {"x": [1, 2]}]
    assert column(trace.path, "call", "q")[len(values)] == name


def test_rows_that_cannot_be_kept_are_counted_and_the_count_is_written(tmp_path: Path) -> None:
    trace = Writer(tmp_path / "rank-00000.7.trace", interval=NEVER, limit=MANY + 100)
    trace._writing.acquire()  # a disk that does not come back
    for q in range(MANY + 150):
        trace.put("call", call(q, i=3))
    for q in range(7):
        trace.put("scalar", (q, 0, 0, 0, "loss", None, 1.0))
    trace._writing.release()
    assert trace.dropped == 57
    assert trace.close(end(9))
    assert len(column(trace.path, "call", "q")) == MANY + 100
    (said,) = column(trace.path, "trouble", "error")
    assert said.endswith("50 call, 7 scalar")
    assert column(trace.path, "end", "dropped") == [57]


def test_a_row_of_an_unknown_kind_is_counted_as_dropped(tmp_path: Path) -> None:
    trace = Writer(tmp_path / "rank-00000.7.trace", interval=NEVER)
    trace.put("no such kind", (1, 2))
    trace.put("call", call(3))
    assert trace.close(end(4))
    assert column(trace.path, "call", "q") == [3]
    assert column(trace.path, "end", "dropped") == [1]
    assert "1 no such kind" in column(trace.path, "trouble", "error")[0]


def test_long_lists_count_for_what_they_hold(tmp_path: Path) -> None:
    trace = Writer(tmp_path / "rank-00000.7.trace", interval=NEVER, limit=200_000)
    trace._writing.acquire()
    row: list[Any] = [None] * len(TABLES["state"])
    row[HEAVY["state"]] = list(range(1000))
    for _ in range(MANY + 10):
        trace.put("state", tuple(row))
    assert trace._heavy == MANY * 1000
    assert trace.dropped == 10
    trace._writing.release()
    assert trace.close()
    assert trace._heavy == 0


@posix
def test_a_file_that_another_descriptor_took_the_place_of_is_not_written_to(tmp_path: Path) -> None:
    done = program(
        tmp_path,
        "trace = Writer('rank-00000.7.trace', interval=3600)\n"
        "trace.put('call', call(1))\n"
        "trace.flush()\n"
        "os.closerange(3, 64)\n"
        "own = [open(f'own{n}', 'w') for n in range(8)]\n"
        "trace.put('call', call(2))\n"
        "print(trace.close())\n",
        "-W",
        "ignore",
    )
    assert (done.stdout, done.stderr) == ("True\n", "")
    assert [(tmp_path / f"own{n}").read_text() for n in range(8)] == [""] * 8
    assert column(tmp_path / "rank-00000.7.trace", "call", "q") == [1, 2]


def test_the_wall_clock_does_not_matter(tmp_path: Path) -> None:
    done = program(
        tmp_path,
        "jumps = iter(range(10**9, 0, -1))\n"
        "time.time = lambda: float(next(jumps))\n"
        "time.time_ns = lambda: next(jumps)\n"
        "trace = Writer('rank-00000.7.trace', interval=0.01)\n"
        "for q in range(5):\n"
        "    trace.put('call', call(q)); size = trace.written_bytes\n"
        "    while trace.written_bytes == size: time.sleep(0.001)\n",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert column(tmp_path / "rank-00000.7.trace", "call", "q") == list(range(5))


def test_it_loads_nothing_but_the_standard_library_and_keeps_out_of_sight(tmp_path: Path) -> None:
    done = program(
        tmp_path,
        "trace = Writer('rank-00000.7.trace')\n"
        "print(threading.active_count(), {n for n in ('torch', 'numpy', 'msgspec', 'preflight') if n in sys.modules})\n",
    )
    assert (done.stdout, done.stderr) == ("1 set()\n", "")
