"""The modules of a folder."""

from __future__ import annotations

from pathlib import Path

from preflight.listing import modules_beside


def test_the_python_files_beside_a_file_in_their_order(tmp_path: Path) -> None:
    for name in ("b.py", "a.py", "__init__.py", "_own.py", "notes.txt", "not_one.py"):
        (tmp_path / name).touch()
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "c.py").touch()
    here = str(tmp_path / "a.py")
    assert modules_beside(here, but=("not_one.py",)) == ("a", "b")
    assert modules_beside(here, "inner") == ("c",)
