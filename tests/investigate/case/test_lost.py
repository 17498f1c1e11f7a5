"""Logs of which a part is lost: nothing is called healthy for it, and nobody silent."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from preflight.investigate.case.lost import lost_logs
from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.log import LogFile

CLOSED = (
    "[rank{rank}]: Traceback (most recent call last):\n"
    '[rank{rank}]:   File "/job/train.py", line 30, in step\n'
    "[rank{rank}]:     loss.backward()\n"
    "[rank{rank}]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
    "[10.0.0.7]:16035.\n"
)


def _steps(rank: int) -> str:
    return "".join(f"2025-03-02 10:{minute:02}:00 step {minute} loss {3 - minute / 100:.2f}\n" for minute in range(60))


def _archive(tmp_path: Path, files: dict[str, str], keep: float = 1.0) -> Path:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, text in files.items():
            told = tarfile.TarInfo(name)
            told.size = len(text.encode())
            archive.addfile(told, io.BytesIO(text.encode()))
    content = packed.getvalue()
    path = tmp_path / "logs.tar"
    path.write_bytes(content if keep == 1.0 else content[: int(len(content.rstrip(b"\0")) * keep)])
    return path


@pytest.mark.parametrize(("keep", "verdict"), [(1.0, "GO"), (0.6, "UNKNOWN")])
def test_an_archive_that_ends_early_is_not_healthy(tmp_path: Path, keep: float, verdict: str) -> None:
    report = diagnose(_archive(tmp_path, {f"rank_{rank}.log": _steps(rank) for rank in range(4)}, keep))
    assert report.verdict == verdict
    assert report.incident is not None
    assert (report.incident.category == "none") == (verdict == "GO")
    assert ("logs.tar" in (report.incident.reason or "")) == (verdict == "UNKNOWN")


def test_who_is_silent_in_what_is_left_of_an_archive_did_not_begin_it(tmp_path: Path) -> None:
    """The log of the one that failed lies behind the damage: the silent one may as well be a victim."""
    files = {f"rank_{rank}.log": _steps(rank) + (CLOSED.format(rank=rank) if rank < 3 else "") for rank in range(4)}
    files["rank_4.log"] = _steps(4) * 20
    whole = diagnose(_archive(tmp_path, {name: files[name] for name in list(files)[:4]})).incident
    cut = diagnose(_archive(tmp_path, files, 0.4)).incident
    assert whole is not None
    assert cut is not None
    assert whole.culprit.ranks == (3,)
    at = {one.rank: one.probability for one in cut.culprit.suspects}
    assert at.get(3, 0.0) < {one.rank: one.probability for one in whole.culprit.suspects}[3] - 0.1


@pytest.mark.parametrize(
    ("kind", "problem", "lost"),
    [
        ("text", None, False),
        ("text", "cut off: the packed file ends early; what was there is read", True),
        ("unreadable", "Permission denied", True),
        ("unreadable", "not a file (a device, a pipe or a socket)", False),
        ("binary", "neither text nor a dump that is known, not read", False),
    ],
)
def test_what_is_lost(kind: str, problem: str | None, lost: bool) -> None:
    file = LogFile(index=0, path="x", kind=kind, problem=problem)  # type: ignore[arg-type]
    assert bool(lost_logs([file])) == lost
