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
        [sys.executable, "-c", program, str(scratch)],
        cwd=work,
        capture_output=True,
        text=True,
        timeout=60,
        start_new_session=True,  # a signal to its group is none to ours
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


def test_what_lies_elsewhere_is_not_changed_through_a_number(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "kept.txt").write_text("as it was")
    (data / "kept.txt").chmod(0o640)
    _guarded(
        tmp_path,
        """
        data = os.path.abspath("../data")
        os.makedirs("own")
        os.chdir("own")  # a folder of the scratch folder: names alone are names in it
        folder = os.open(data, os.O_RDONLY)
        for name, flags in (("kept.txt", os.O_WRONLY | os.O_TRUNC), ("new.txt", os.O_WRONLY | os.O_CREAT)):
            number = os.open(name, flags, 0o644, dir_fd=folder)
            os.write(number, b"changed")
            os.close(number)
        assert open(os.path.join(data, "kept.txt")).read() == "changed"
        assert raises(PermissionError, os.mkdir, "made", dir_fd=folder)
        assert raises(PermissionError, os.unlink, "kept.txt", dir_fd=folder)
        assert raises(PermissionError, os.rename, "kept.txt", "moved.txt", src_dir_fd=folder, dst_dir_fd=folder)
        os.remove(os.path.join(data, "kept.txt"))
        """,
    )
    assert sorted(path.name for path in data.iterdir()) == ["kept.txt"]
    assert (data / "kept.txt").read_text() == "as it was"


def test_rights_and_times_of_an_open_file_stay(tmp_path: Path) -> None:
    kept = tmp_path / "kept.txt"
    kept.write_text("as it was")
    kept.chmod(0o640)
    before = kept.stat()
    _guarded(
        tmp_path,
        """
        with open("../kept.txt") as file:
            os.fchmod(file.fileno(), 0o600)
            os.chmod(file.fileno(), 0o600)
            os.utime(file.fileno(), (1, 1))
        with open("own.txt", "w") as file:
            os.fchmod(file.fileno(), 0o600)
        assert os.stat("own.txt").st_mode & 0o777 == 0o600
        os.mkfifo("pipe")
        assert os.path.exists("pipe")
        """,
    )
    after = kept.stat()
    assert (after.st_mode, after.st_mtime) == (before.st_mode, before.st_mtime)
    assert list((tmp_path / "work").iterdir()) == []


def test_only_devices_that_keep_nothing_are_written_to(tmp_path: Path) -> None:
    name = f"/dev/shm/preflight-{tmp_path.name}"
    _guarded(
        tmp_path,
        f"""
        with open("/dev/null", "w") as file:
            file.write("nothing")
        with open({name!r}, "w") as file:
            file.write("kept")
        assert open({name!r}).read() == "kept"
        assert raises(PermissionError, os.chmod, "/dev/null", 0o666)
        """,
    )
    assert not Path(name).exists()


def test_no_other_process_is_signalled(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as other:
        try:
            _guarded(
                tmp_path,
                f"""
                import signal
                heard = []
                signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
                os.kill({other.pid}, 0)
                os.kill({other.pid}, signal.SIGTERM)
                os.kill(0, signal.SIGTERM)  # a group holds this process, too
                os.killpg(os.getpgid(0), signal.SIGTERM)
                assert heard == []
                os.kill(os.getpid(), signal.SIGTERM)
                assert heard == [signal.SIGTERM]
                """,
            )
            assert other.poll() is None
        finally:
            other.kill()
