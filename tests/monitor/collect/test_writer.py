"""The writer: what is put is in the file, whatever happens to the process, the disk and the file."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from preflight.monitor.collect import segment, writer
from preflight.monitor.collect.columns import HEAVY, TABLES
from preflight.monitor.collect.writer import MANY, Writer
from preflight.monitor.trace.reader import Block, Reader

from ..rows import begin, call, end

SOURCE = Path(writer.__file__).resolve().parents[3]
NEVER = 3600.0
"""An interval after which nothing is written before the test has ended."""
posix = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork and no limit of the size of a file")


def _read(path: str | Path) -> tuple[list[Block], Reader]:
    reader = Reader(Path(path))
    blocks = list(reader.poll())
    reader.finish()
    return blocks, reader


def _column(path: str | Path, kind: str, column: str) -> list[Any]:
    return [value for block in _read(path)[0] for value in block.tables.get(kind, {}).get(column, [])]


def _program(folder: Path, text: str, *options: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a program beside the folder ``collect`` alone, as a package of another name."""
    package = folder / "packages" / "recorder_of_tests"
    package.parent.mkdir(exist_ok=True)
    if not package.exists():
        package.symlink_to(SOURCE / "preflight" / "monitor" / "collect", target_is_directory=True)
    start = (
        "import os, sys, signal, threading, time\n"
        f"sys.path.insert(0, {str(package.parent)!r})\n"
        "from recorder_of_tests.writer import Writer\n"
        "def call(q, i=0): return (q, q, q, 1, i, i, 'step', 'model', -1, 1, None, None, None, None, None)\n"
    )
    script = folder / "program.py"
    script.write_text(start + text)
    command = [sys.executable, "-I", "-W", "error", *options, str(script)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=folder, **more)


def test_what_is_put_is_in_the_file(tmp_path: Path) -> None:
    with_many = Writer(tmp_path / "rank-00000.7.trace")
    rows = [call(q, i=q // 10) for q in range(3 * MANY)]
    with_many.put("begin", begin())
    for row in rows:
        with_many.put("call", row)
    assert with_many.close(end(len(rows)))
    blocks, reader = _read(with_many.path)
    assert [
        row for block in blocks if "call" in block.tables for row in zip(*block.tables["call"].values(), strict=True)
    ] == rows
    assert _column(with_many.path, "begin", "rank") == [0]
    assert _column(with_many.path, "end", "dropped") == [0]
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
    assert _column(trace.path, "call", "q") == [*range(count + 1)]


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
    assert _column(trace.path, "call", "q") == [1]
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
    assert _column(first.path, "end", "q") == [1]
    assert _column(second.path, "end", "q") == [2]


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
    assert sorted(_column(trace.path, "call", "q")) == [10_000 * t + at for t in range(4) for at in range(5000)]


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
    for column in range(len(TABLES["call"])):
        trace.put("call", tuple(_Hostile() if at == column else 1 for at in range(len(TABLES["call"]))))
    assert trace.close()
    assert _read(trace.path)[1].damage == []
    got = _column(trace.path, "call", "args")[: len(values)]
    name = f"<{_Hostile.__module__}._Hostile>"
    assert got[:7] == [name, {"1": name, "[2,3]": "tuple"}, ["a", "b"], "b'bytes'", "(2+3j)", "1.5", "_Colour.RED"]
    assert str(got[7]).count("[") == 12
    assert str(got[8]).count("[") == 12
    assert got[9] == f"<integer of {(10**5000).bit_length()} bits>"
    assert [repr(value) for value in got[10:13]] == [r"'\ud800'", "nan", "-0.0"]
    assert got[13:] == ["builtins.print", "builtins.int", "a", {"x": [1, 2]}]
    assert _column(trace.path, "call", "q")[len(values)] == name


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
    assert len(_column(trace.path, "call", "q")) == MANY + 100
    (said,) = _column(trace.path, "trouble", "error")
    assert said.endswith("50 call, 7 scalar")
    assert _column(trace.path, "end", "dropped") == [57]


def test_a_row_of_an_unknown_kind_is_counted_as_dropped(tmp_path: Path) -> None:
    trace = Writer(tmp_path / "rank-00000.7.trace", interval=NEVER)
    trace.put("no such kind", (1, 2))
    trace.put("call", call(3))
    assert trace.close(end(4))
    assert _column(trace.path, "call", "q") == [3]
    assert _column(trace.path, "end", "dropped") == [1]
    assert "1 no such kind" in _column(trace.path, "trouble", "error")[0]


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


def _full(monkeypatch: pytest.MonkeyPatch, room: int) -> dict[str, int]:
    """Let the disk have ``room`` bytes left; return where to give it more."""
    left = {"bytes": room}
    write = os.write

    def limited(descriptor: int, data: Any) -> int:
        if left["bytes"] <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(descriptor, data[: left["bytes"]])
        left["bytes"] -= written
        return written

    monkeypatch.setattr(segment.os, "write", limited)
    return left


def test_a_full_disk_costs_nothing_when_room_is_made_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = Writer(tmp_path / "rank-00000.7.trace", interval=NEVER)
    left = _full(monkeypatch, 300)
    for q in range(50):
        trace.put("call", call(q))
        trace.flush()
    assert trace.error == f"ENOSPC: {os.strerror(errno.ENOSPC)}"
    whole, reader = _read(trace.path)
    assert reader.damage == []  # the torn block was cut off again
    assert 0 < len(whole) < 50
    left["bytes"] = 1 << 20
    assert trace.close(end(50))
    assert trace.error is None
    assert _column(trace.path, "call", "q") == list(range(50))
    assert _column(trace.path, "end", "dropped") == [0]


def test_a_disk_that_stays_full_leaves_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = Writer(tmp_path / "rank-00000.7.trace", interval=NEVER, limit=MANY)
    _full(monkeypatch, 300)
    monkeypatch.setattr(segment.os, "ftruncate", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "no")))
    for q in range(3 * MANY):
        trace.put("call", call(q))
        if q % 100 == 0:
            trace.flush()
    assert not trace.close(end(1))
    blocks, reader = _read(trace.path)
    assert blocks
    assert [part.reason for part in reader.damage] == ["the last block is cut"]
    assert trace.dropped > 0


@posix
@pytest.mark.parametrize("limit", [1200, 2000, 2500])
def test_a_file_that_may_not_grow_still_says_what_was_dropped(tmp_path: Path, limit: int) -> None:
    done = _program(
        tmp_path,
        "import resource\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.RLIM_INFINITY))\n"
        "trace = Writer('rank-00000.7.trace', interval=3600)\n"
        "for q in range(100):\n    trace.put('call', call(q))\n    trace.flush()\n"
        "print(trace.close((100, 0, 9, 9, 'exit', 0, None, 0, 0)), os.path.getsize(trace.path))\n",
    )
    assert done.stderr == ""
    assert done.stdout.split()[0] == "False"
    assert int(done.stdout.split()[1]) <= limit
    path = tmp_path / "rank-00000.7.trace"
    kept = _column(path, "call", "q")
    assert kept == list(range(len(kept)))
    assert _column(path, "end", "dropped") == [100 - len(kept)]
    assert _column(path, "trouble", "error")[-1].endswith(f": {100 - len(kept)} call")
    assert _read(path)[1].damage == []


@posix
def test_a_limit_of_the_size_of_a_file(tmp_path: Path) -> None:
    done = _program(
        tmp_path,
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))\n"
        "trace = Writer('rank-00000.7.trace', interval=3600)\n"
        "for q in range(200):\n    trace.put('call', call(q))\n    trace.flush()\n"
        "print(trace.error.split(':')[0], trace.written_bytes <= 2000)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)\n"
        "print(trace.close())\n",
    )
    assert (done.stdout, done.stderr) == ("EFBIG True\nTrue\n", "")
    assert _column(tmp_path / "rank-00000.7.trace", "call", "q") == list(range(200))


@pytest.mark.parametrize("path", ["missing/rank-00000.7.trace", "file/rank-00000.7.trace"])
def test_a_folder_that_cannot_be_written_to_raises_nothing(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_text("")
    trace = Writer(tmp_path / path)
    for q in range(10):
        trace.put("call", call(q))
    assert not trace.flush()
    assert trace.error is not None
    assert not trace.close(end(1))


@posix
def test_a_file_that_another_descriptor_took_the_place_of_is_not_written_to(tmp_path: Path) -> None:
    done = _program(
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
    assert _column(tmp_path / "rank-00000.7.trace", "call", "q") == [1, 2]


@pytest.mark.parametrize(
    ("leave", "code"),
    [
        ("", 0),
        ("sys.exit(3)\n", 3),
        ("raise ValueError('the program failed')\n", 1),
        ("threading.Thread(target=lambda: (time.sleep(0.2), trace.put('call', call(10)))).start()\n", 0),
    ],
)
def test_the_end_of_the_interpreter_writes_what_waits(tmp_path: Path, leave: str, code: int) -> None:
    text = "trace = Writer('rank-00000.7.trace', interval=3600)\nfor q in range(10): trace.put('call', call(q))\n"
    done = _program(tmp_path, text + leave)
    assert done.returncode == code
    assert bool(done.stderr) == (code == 1)
    assert _column(tmp_path / "rank-00000.7.trace", "call", "q") == list(range(11 if "Thread" in leave else 10))


@pytest.mark.parametrize("leave", ["os._exit(5)", "os.kill(os.getpid(), signal.SIGTERM if os.name == 'nt' else 9)"])
def test_a_process_that_dies_leaves_what_was_written(tmp_path: Path, leave: str) -> None:
    done = _program(
        tmp_path,
        "trace = Writer('rank-00000.7.trace', interval=0.01)\n"
        "for q in range(10): trace.put('call', call(q))\n"
        "while trace.written_bytes == 0: time.sleep(0.01)\n"
        "for q in range(10, 200_000): trace.put('call', call(q))\n" + leave,
    )
    assert done.returncode != 0
    blocks, reader = _read(tmp_path / "rank-00000.7.trace")
    got = [q for block in blocks for q in block.tables["call"]["q"]]
    assert got == list(range(len(got)))
    assert len(got) >= 10
    assert len(reader.damage) <= 1


@posix
def test_a_forked_child_leaves_the_file_alone(tmp_path: Path) -> None:
    done = _program(
        tmp_path,
        "trace = Writer('rank-00000.7.trace', interval=0.001)\n"
        "children = []\n"
        "for q in range(2000):\n"
        "    trace.put('call', call(q))\n"
        "    if q % 100 == 0:\n"
        "        child = os.fork()\n"
        "        if child == 0:\n"
        "            trace.put('call', call(-1)); trace.flush(); trace.close()\n"
        "            own = Writer(f'worker-00000.{os.getpid()}.trace')\n"
        "            own.put('call', call(q))\n"
        "            sys.exit(0)\n"
        "        children.append(child)\n"
        "print({os.waitpid(child, 0)[1] for child in children}, trace.close())\n",
    )
    assert (done.stdout, done.stderr) == ("{0} True\n", "")  # and no warning that threads run beside a fork
    assert _column(tmp_path / "rank-00000.7.trace", "call", "q") == list(range(2000))
    workers = sorted(tmp_path.glob("worker-*.trace"))
    assert sorted(q for path in workers for q in _column(path, "call", "q")) == list(range(0, 2000, 100))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_write_files_of_their_own(tmp_path: Path, method: str) -> None:
    import multiprocessing

    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"there is no {method} here")
    done = _program(
        tmp_path,
        "import multiprocessing\n"
        "def work(n):\n"
        "    own = Writer(f'worker-00000.{n}.trace', interval=3600)\n"
        "    own.put('call', call(n))\n"
        "if __name__ == '__main__':\n"
        "    trace = Writer('rank-00000.7.trace', interval=0.001)\n"
        f"    context = multiprocessing.get_context({method!r})\n"
        "    children = [context.Process(target=work, args=(n,)) for n in range(2)]\n"
        "    for child in children: child.start()\n"
        "    for child in children: child.join()\n"
        "    trace.put('call', call(9))\n"
        "    print([child.exitcode for child in children])\n",
    )
    assert (done.stdout, done.stderr) == ("[0, 0]\n", "")
    assert [_column(tmp_path / f"worker-00000.{n}.trace", "call", "q") for n in range(2)] == [[0], [1]]
    assert _column(tmp_path / "rank-00000.7.trace", "call", "q") == [9]


def test_the_wall_clock_does_not_matter(tmp_path: Path) -> None:
    done = _program(
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
    assert _column(tmp_path / "rank-00000.7.trace", "call", "q") == list(range(5))


def test_it_loads_nothing_but_the_standard_library_and_keeps_out_of_sight(tmp_path: Path) -> None:
    done = _program(
        tmp_path,
        "trace = Writer('rank-00000.7.trace')\n"
        "print(threading.active_count(), {n for n in ('torch', 'numpy', 'msgspec', 'preflight') if n in sys.modules})\n",
    )
    assert (done.stdout, done.stderr) == ("1 set()\n", "")
