"""The checks of a machine: each sees a good and a bad one, and says so when it cannot tell."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from preflight.errors import CatalogError
from preflight.investigate.checklist.checks import check_names, check_of

pytestmark = pytest.mark.skipif(os.name == "nt", reason="checks of Linux nodes")


def _program(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")


def test_checks_are_the_files_that_are_there_and_all_are_tried_here() -> None:
    tried = {name[5:] for name in globals() if name.startswith("test_")}
    assert {name.replace("-", "_") for name in check_names()} <= tried
    with pytest.raises(CatalogError) as caught:
        check_of("disk-spce")
    assert "disk-space" in (caught.value.hint or "")


def test_devices_visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = check_of("devices-visible")
    _program(tmp_path / "bin", "nvidia-smi", "echo 'GPU 0: H100 (UUID: a)'; echo 'GPU 1: H100 (UUID: b)'", monkeypatch)
    assert check(2).standing == "pass"
    assert check(8).standing == "fail"
    _program(tmp_path / "bin", "nvidia-smi", "echo No devices were found; exit 6", monkeypatch)
    assert check(1).standing == "unknown"


def test_device_memory_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = check_of("device-memory-free")
    _program(tmp_path / "bin", "nvidia-smi", "printf '0, 80000\\n1, 40000\\n'", monkeypatch)
    assert check(40).standing == "pass"  # 40000 MiB are 41.9e9 bytes
    short = check(70)
    assert (short.standing, "GPU 1: 41.9 GB" in short.text, "GPU 0" in short.text) == ("fail", True, False)
    _program(tmp_path / "bin", "nvidia-smi", "echo '0, [N/A]'", monkeypatch)
    assert check(1).standing == "unknown"


def test_disk_space(tmp_path: Path) -> None:
    check = check_of("disk-space")
    assert check(str(tmp_path / "not" / "there" / "yet"), 0.0).standing == "pass"
    assert check(str(tmp_path), 1e9).standing == "fail"


def test_folder_writable(tmp_path: Path) -> None:
    check = check_of("folder-writable")
    assert check(str(tmp_path)).standing == "pass"
    assert list(tmp_path.iterdir()) == []
    assert check(str(tmp_path / "absent")).standing == "fail"


def test_folder_readable(tmp_path: Path) -> None:
    check = check_of("folder-readable")
    assert check(str(tmp_path)).standing == "fail"
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "shard").write_bytes(b"x")
    assert check(str(tmp_path)).standing == "pass"
    (tmp_path / "empty").write_bytes(b"")
    assert check(str(tmp_path / "empty")).standing == "fail"
    assert check(str(tmp_path / "absent")).standing == "fail"


def test_shared_memory(tmp_path: Path) -> None:
    check = check_of("shared-memory")
    assert check(0.0, str(tmp_path)).standing == "pass"
    assert check(1e9, str(tmp_path)).standing == "fail"
    assert check(1.0, str(tmp_path / "absent")).standing == "unknown"


def test_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    check = check_of("limit")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1024, 4096))
    assert check("open-files", 1000).standing == "pass"
    assert "may be raised to 4,096" in check("open-files", 65536).text
    assert check("locked-memory").standing == "fail"
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY,) * 2)
    assert check("locked-memory").standing == "pass"
    assert check("colours").standing == "unknown"


def test_infiniband_active(tmp_path: Path) -> None:
    check = check_of("infiniband-active")
    assert check(root=str(tmp_path)).standing == "unknown"
    for number, state in enumerate(("4: ACTIVE", "4: ACTIVE", "1: DOWN")):
        port = tmp_path / f"mlx5_{number}" / "ports" / "1"
        port.mkdir(parents=True)
        (port / "state").write_text(state + "\n")
    assert check(2, str(tmp_path)).standing == "warn"
    down = check(3, str(tmp_path))
    assert (down.standing, "mlx5_2/1 is DOWN" in down.text) == ("fail", True)


def test_nccl_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = check_of("nccl-version")
    _program(tmp_path / "bin", "trainer", "echo 2.21.5", monkeypatch)
    assert check("2.18", "trainer").standing == "pass"
    assert check("2.21.6", "trainer").standing == "fail"
    assert check("3", "trainer").standing == "fail"
    _program(tmp_path / "bin", "trainer", "exit 1", monkeypatch)
    assert check("2.18", "trainer").standing == "unknown"


def test_host_reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    check = check_of("host-reachable")
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        assert "answers" in check("127.0.0.1", port).text
    assert "nobody listens" in check("127.0.0.1", port).text
    assert check("no-such-host.invalid").standing == "fail"
    monkeypatch.setattr(socket, "gethostbyname", lambda name: "127.0.1.1")
    loop = check("node17")
    assert (loop.standing, "other nodes cannot reach it" in loop.text) == ("fail", True)


def test_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    check = check_of("variable")
    monkeypatch.setenv("SOMETHING", "WARN")
    assert check("SOMETHING", "WARN|INFO").standing == "pass"
    assert check("SOMETHING", "INFO").standing == "fail"
    assert check("SOMETHING", absent=True).standing == "fail"
    monkeypatch.delenv("SOMETHING")
    assert check("SOMETHING").standing == "fail"
    assert check("SOMETHING", absent=True).standing == "pass"


def test_newest_file(tmp_path: Path) -> None:
    check = check_of("newest-file")
    assert check(str(tmp_path), 1.0).standing == "fail"
    (tmp_path / "old").write_text("x")
    os.utime(tmp_path / "old", (1000, 1000))
    (tmp_path / "new").write_text("y")
    assert check(str(tmp_path), 1.0).standing == "pass"
    assert check(str(tmp_path), 1.0, now=time.time() + 7200).standing == "fail"
    (tmp_path / "new").write_text("")
    assert "is empty" in check(str(tmp_path), 1.0).text
