"""The GitHub Action and the pre-commit hook, run as a runner and as pre-commit would run them."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.command_line import HEALTHY, NEVER_ZEROED

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="the steps are written for bash")


class Runner:
    """Runs the shell steps of a composite action in a folder; steps that use another action are left out."""

    def __init__(self, folder: Path, **inputs: str) -> None:
        self.folder = folder
        self.action: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
        self.inputs = {name: one.get("default", "") for name, one in self.action["inputs"].items()} | inputs
        self.outputs: dict[str, str] = {}
        self.program = folder.parent / "preflight"
        self.program.write_text(f'#!/bin/sh\nexec {sys.executable} -m preflight "$@"\n')
        self.program.chmod(0o755)

    def value(self, expression: str) -> str:
        name = expression.strip()
        if name.startswith("inputs."):
            return self.inputs[name.removeprefix("inputs.")]
        found = re.fullmatch(r"steps\.check\.outputs\.([\w-]+)", name)
        assert found, f"the test knows no {name}"
        return self.outputs[found[1]]

    def step(self, name: str) -> subprocess.CompletedProcess[str]:
        step = next(one for one in self.action["runs"]["steps"] if one.get("name") == name)
        given = {
            key: re.sub(r"\$\{\{(.*?)\}\}", lambda found: self.value(found[1]), text)
            for key, text in step["env"].items()
        }
        files = {key: self.folder.parent / key for key in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_ENV")}
        environment = {**os.environ, **given, **{key: str(path) for key, path in files.items()}}
        environment |= {"PREFLIGHT": str(self.program), "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if files["GITHUB_OUTPUT"].exists():
            lines = files["GITHUB_OUTPUT"].read_text().splitlines()
            self.outputs |= dict(line.split("=", 1) for line in lines)
        return done

    @property
    def summary(self) -> str:
        return (self.folder.parent / "GITHUB_STEP_SUMMARY").read_text()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


def test_a_mistake_fails_the_job_and_stands_in_the_diff(folder: Path) -> None:
    (folder / "train it.py").write_text(NEVER_ZEROED)
    runner = Runner(folder)
    done = runner.step("Check")
    assert done.returncode == 0, done.stderr
    assert runner.outputs == {"exit-code": "1"}
    sarif = json.loads((folder / "preflight.sarif").read_text())
    assert sarif["version"] == "2.1.0"
    assert sarif["runs"][0]["results"]
    assert re.search(r"^::error file=train it\.py,line=\d+", done.stdout, re.MULTILINE)
    assert "NO-GO" in runner.summary
    assert runner.step("Verdict").returncode == 1


def test_a_healthy_script_passes(folder: Path) -> None:
    (folder / "train.py").write_text(HEALTHY)
    runner = Runner(folder, paths="train.py", args="--persona regular")
    assert runner.step("Check").returncode == 0
    assert runner.outputs == {"exit-code": "0"}
    verdict = runner.step("Verdict")
    assert (verdict.returncode, verdict.stdout) == (0, "GO\n")


def test_what_is_misused_fails_with_its_message(folder: Path) -> None:
    runner = Runner(folder, paths="nowhere.py $(touch pwned)", gpu="h1000")
    done = runner.step("Check")
    assert runner.outputs == {"exit-code": "2"}
    assert "h1000" in done.stderr
    assert runner.step("Verdict").returncode == 2
    assert not list(folder.glob("pwned*"))


def test_the_hook_judges_the_files_that_it_is_given(folder: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    (folder / "train.py").write_text(NEVER_ZEROED)
    (folder / "fine.py").write_text(HEALTHY)
    words = shlex.split(hook["entry"])[1:]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}

    def commit(*names: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "preflight", *words, *names]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    both = commit("fine.py", "train.py")
    assert both.returncode == 1
    assert "NO-GO  train.py" in both.stdout
    assert commit("fine.py").returncode == 0
