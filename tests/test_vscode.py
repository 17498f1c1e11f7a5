"""The extension for Visual Studio Code: its settings are options of the server, and its own tests pass."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from preflight.cli.lsp import command
from preflight.vocabulary.version import VERSION

EXTENSION = Path(__file__).resolve().parents[1] / "editors" / "vscode"


def test_settings_are_options_of_the_server() -> None:
    declared = json.loads((EXTENSION / "package.json").read_text())
    properties = declared["contributes"]["configuration"]["properties"]
    said = {name.removeprefix("preflight.") for name in properties} - {"command", "trace.server"}
    options = {word.removeprefix("--") for option in command.params for word in option.opts}
    assert said <= options
    assert said == {"gpu", "gpus", "launch", "persona"}
    personas = next(option for option in command.params if option.name == "persona").type.choices  # type: ignore[attr-defined]
    assert properties["preflight.persona"]["enum"] == ["", *personas]


def test_the_versions_agree() -> None:
    declared = json.loads((EXTENSION / "package.json").read_text())["version"]
    assert VERSION.startswith(declared)
    assert json.loads((EXTENSION / "package-lock.json").read_text())["version"] == declared


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_its_own_tests_pass() -> None:
    done = subprocess.run(["node", "--test", "test/"], cwd=EXTENSION, capture_output=True, text=True, check=False)
    if "bad option" in done.stderr:
        pytest.skip("node is older than 18")
    assert done.returncode == 0, done.stdout + done.stderr
