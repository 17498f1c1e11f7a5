"""The writer where the disk is full, the file may not grow, or the folder cannot be written to."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from preflight.monitor.collect import segment
from preflight.monitor.collect.writer import MANY, Writer

from ..rows import call, end
from .writing import NEVER, column, posix, program, read


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
    whole, reader = read(trace.path)
    assert reader.damage == []  # the torn block was cut off again
    assert 0 < len(whole) < 50
    left["bytes"] = 1 << 20
    assert trace.close(end(50))
    assert trace.error is None
    assert column(trace.path, "call", "q") == list(range(50))
    assert column(trace.path, "end", "dropped") == [0]


def test_a_disk_that_stays_full_leaves_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = Writer(tmp_path / "rank-00000.7.trace", interval=NEVER, limit=MANY)
    _full(monkeypatch, 300)
    monkeypatch.setattr(segment.os, "ftruncate", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "no")))
    for q in range(3 * MANY):
        trace.put("call", call(q))
        if q % 100 == 0:
            trace.flush()
    assert not trace.close(end(1))
    blocks, reader = read(trace.path)
    assert blocks
    assert [part.reason for part in reader.damage] == ["the last block is cut"]
    assert trace.dropped > 0


@posix
@pytest.mark.parametrize("limit", [1200, 2000, 2500])
def test_a_file_that_may_not_grow_still_says_what_was_dropped(tmp_path: Path, limit: int) -> None:
    done = program(
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
    kept = column(path, "call", "q")
    assert kept == list(range(len(kept)))
    assert column(path, "end", "dropped") == [100 - len(kept)]
    assert column(path, "trouble", "error")[-1].endswith(f": {100 - len(kept)} call")
    assert read(path)[1].damage == []


@posix
def test_a_limit_of_the_size_of_a_file(tmp_path: Path) -> None:
    done = program(
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
    assert column(tmp_path / "rank-00000.7.trace", "call", "q") == list(range(200))


@pytest.mark.parametrize("path", ["missing/rank-00000.7.trace", "file/rank-00000.7.trace"])
def test_a_folder_that_cannot_be_written_to_raises_nothing(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_text("")
    trace = Writer(tmp_path / path)
    for q in range(10):
        trace.put("call", call(q))
    assert not trace.flush()
    assert trace.error is not None
    assert not trace.close(end(1))
