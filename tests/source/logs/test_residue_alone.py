"""A line that looks like trouble and that no signature asks for is kept."""

from __future__ import annotations

from pathlib import Path

from preflight.source.logs import read_logs


def test_trouble_that_nothing_asks_for_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("step 1 loss 2.0\nLabFsError: the lab's own file server went home\n", encoding="utf-8")
    unknown = read_logs([log]).unknown
    assert [one.first.line for one in unknown] == [2]
