"""The commands of the Kubernetes example, run as the containers would run them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.command_line import HEALTHY, NEVER_ZEROED

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def pod() -> dict[str, Any]:
    job = yaml.safe_load((ROOT / "examples" / "kubernetes" / "job.yaml").read_text())
    assert (job["kind"], job["apiVersion"]) == ("Job", "batch/v1")
    spec: dict[str, Any] = job["spec"]["template"]["spec"]
    return spec


def _run(command: list[str], folder: Path, torchrun: str) -> subprocess.CompletedProcess[str]:
    """Run a container's command where ``torchrun`` is a script of ours and the logs lie in the folder."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    for name, text in (("torchrun", torchrun), ("preflight", f'exec {sys.executable} -m preflight "$@"')):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    (folder / "logs").mkdir(exist_ok=True)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src")}
    here = [word.replace("/logs", str(folder / "logs")) for word in command]
    return subprocess.run(here, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_what_is_no_go_does_not_get_past_the_init_container(pod: dict[str, Any], tmp_path: Path) -> None:
    (check,) = pod["initContainers"]
    (tmp_path / "train.py").write_text(NEVER_ZEROED)
    assert _run(check["command"], tmp_path, "true").returncode == 1
    (tmp_path / "train.py").write_text(HEALTHY)
    assert _run(check["command"], tmp_path, "true").returncode == 0


def test_a_failure_is_investigated_and_the_exit_code_is_kept(pod: dict[str, Any], tmp_path: Path) -> None:
    (train,) = pod["containers"]
    says = f"echo '[rank1]: OSError: [Errno 28] No space left on device' >{tmp_path}/logs/out.log; exit 7"
    done = _run(train["command"], tmp_path, says)
    assert done.returncode == 7
    assert "No space left on device" in done.stdout
    assert (tmp_path / "logs" / "incident.html").read_text().startswith("<!doctype html>")
    done = _run(train["command"], tmp_path, "exit 0")
    assert (done.returncode, done.stdout) == (0, "")


def test_what_is_mounted_is_a_volume(pod: dict[str, Any]) -> None:
    (train,) = pod["containers"]
    assert {mount["name"] for mount in train["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
