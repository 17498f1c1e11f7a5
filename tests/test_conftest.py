"""What the shared part of the tests promises: a required test may not be skipped, timm comes without torchvision."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

CONFTEST = Path(__file__).with_name("conftest.py")
SETTINGS = "[pytest]\nmarkers =\n  torch: needs torch\n  cuda: needs a device\n"


def _run(folder: Path, source: str, required: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "pytest.ini").write_text(SETTINGS)
    (folder / "test_it.py").write_text("import pytest\n" + source)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(
        command, cwd=folder, env={**environment, "PREFLIGHT_REQUIRE": required}, capture_output=True, text=True
    )


MARKED = "@pytest.mark.torch\ndef test_a():\n    {body}\n\ndef test_b():\n    pass\n"


@pytest.mark.parametrize(
    ("source", "status"),
    [
        (MARKED.format(body="pass"), 0),
        (MARKED.format(body="pytest.skip('not here')"), 1),
        ("def test_b():\n    pass\n", 1),
        ("pytest.importorskip('torch_that_is_not_there')\n", 1),
    ],
    ids=["ran", "skipped", "there is none", "the module skipped itself"],
)
def test_a_required_test_has_to_run(tmp_path: Path, source: str, status: int) -> None:
    if "importorskip" in source:
        (tmp_path / "test_other.py").write_text("import pytest\n" + MARKED.format(body="pass"))
    done = _run(tmp_path, source, "torch")
    assert done.returncode == status, done.stdout
    assert ("required by PREFLIGHT_REQUIRE=torch" in done.stdout) is bool(status)


def test_a_device_that_is_absent_is_excused_unless_it_is_required(tmp_path: Path) -> None:
    source = (
        MARKED.format(body="pass") + "\n@pytest.mark.cuda\n" + MARKED.format(body="pytest.skip()").replace("_a", "_c")
    )
    assert _run(tmp_path, source, "torch").returncode == 0
    assert _run(tmp_path, source, "torch,cuda").returncode == 1


def test_what_gets_a_second_chance_is_there() -> None:
    source = CONFTEST.read_text(encoding="utf-8")
    [live] = [
        node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LIVE"
    ]
    named = eval(ast.unparse(live))  # names and a loop over names
    assert not [place for place in named if not (CONFTEST.parent / place).exists()]


def test_nothing_is_required_by_default(tmp_path: Path) -> None:
    assert _run(tmp_path, MARKED.format(body="pytest.skip('not here')"), "").returncode == 0


@pytest.mark.torch
@pytest.mark.slow
def test_timm_builds_a_model_and_leaves_no_stand_in_behind(timm: Any) -> None:
    import torch

    with torch.device("meta"):
        model = timm.create_model("resnet18")
    assert sum(parameter.numel() for parameter in model.parameters()) == 11_689_512
    left = sys.modules.get("torchvision")
    assert left is None or left.__spec__.origin is not None


@pytest.mark.browser
@pytest.mark.slow
def test_a_page_is_rendered_with_its_scripts_run(tmp_path: Path, rendered: Callable[[Path], str]) -> None:
    page = tmp_path / "page.html"
    page.write_text("<p id=a>no</p><script>document.getElementById('a').textContent = 6 * 7</script>", encoding="utf-8")
    assert '<p id="a">42</p>' in rendered(page)
