"""A script changes files and folders as it would alone, and the machine's stay as they are."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

GUARDED = """
import os, sys, shutil, tempfile
from preflight.dryrun.virtual.guard import guard

guard.install(sys.argv[1])

def raises(kind, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind:
        return True
    return False

"""


def _guarded(folder: Path, text: str) -> None:
    """Run a program in ``folder/work`` over a scratch folder, in a process of its own: a guard stays."""
    work, scratch = folder / "work", folder / "scratch"
    work.mkdir(exist_ok=True)
    (scratch / "tmp").mkdir(parents=True)
    program = GUARDED + textwrap.dedent(text)
    done = subprocess.run(
        [sys.executable, "-c", program, str(scratch)], cwd=work, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_a_folder_of_its_own_is_gone_when_it_was_removed(tmp_path: Path) -> None:
    _guarded(
        tmp_path,
        """
        own = tempfile.mkdtemp(dir=os.path.join(sys.argv[1], "tmp"))
        os.makedirs(os.path.join(own, "a/b"))
        open(os.path.join(own, "a/b/c.txt"), "w").close()
        shutil.rmtree(own)
        assert not os.path.exists(own)
        os.makedirs(own)
        with tempfile.TemporaryDirectory(dir=own) as other:
            open(os.path.join(other, "x"), "w").close()
        assert os.listdir(own) == []
        """,
    )


def test_a_folder_that_is_removed_and_made_again_is_empty(tmp_path: Path) -> None:
    old = tmp_path / "work" / "runs" / "old"
    old.mkdir(parents=True)
    (old / "last.pt").write_text("weights")
    _guarded(
        tmp_path,
        """
        assert open("runs/old/last.pt").read() == "weights"
        shutil.rmtree("runs")
        assert not os.path.exists("runs") and not os.path.exists("runs/old/last.pt")
        assert raises(FileNotFoundError, open, "runs/new.txt", "w")
        os.makedirs("runs/old")
        assert os.listdir("runs") == ["old"] and os.listdir("runs/old") == []
        assert [entry.name for entry in os.scandir("runs/old")] == []
        assert raises(FileNotFoundError, open, "runs/old/last.pt")
        with open("runs/old/last.pt", "a") as file:
            file.write("more")
        assert open("runs/old/last.pt").read() == "more"
        """,
    )
    assert (old / "last.pt").read_text() == "weights"


def test_what_cannot_be_removed_raises_as_usual(tmp_path: Path) -> None:
    folder = tmp_path / "work" / "data"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    _guarded(
        tmp_path,
        """
        for call in (os.rmdir, os.remove, shutil.rmtree):
            assert raises(FileNotFoundError, call, "nothing")
        shutil.rmtree("nothing", ignore_errors=True)
        assert raises(OSError, os.rmdir, "data")
        os.remove("data/a.txt")
        assert raises(FileNotFoundError, os.remove, "data/a.txt")
        os.rmdir("data")
        assert not os.path.exists("data")
        assert raises(FileNotFoundError, os.mkdir, "data/deep")
        os.mkdir("data")
        assert raises(FileExistsError, os.mkdir, "data")
        assert os.listdir("data") == []
        """,
    )
    assert (folder / "a.txt").read_text() == "a"
