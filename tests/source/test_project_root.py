"""Where a script's own modules are looked for: below the repository's root, which has a mark, a name, or is where one stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from preflight.source.reading import Reading, read
from preflight.source.script import read_script

NETWORK = "import torch.nn as nn\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.one = nn.Linear(4, 2)\n"
SCRIPT = "from {module} import Net\n\nnet = Net()\n"


def _networks(folder: Path, module: str) -> list[str]:
    (folder / "scripts").mkdir()
    (folder / "models").mkdir()
    (folder / "models" / "__init__.py").write_text("")
    (folder / "models" / "net.py").write_text(NETWORK)
    (folder / "scripts" / "train.py").write_text(SCRIPT.format(module=module))
    reading: Reading = read(read_script(folder / "scripts" / "train.py"))
    return [one.cls.qualname for one in reading.made("model") + reading.networks if one.cls is not None]


def test_modules_beside_the_folder_of_scripts_are_found_where_one_stands_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "Net" in _networks(tmp_path, "models.net")


def test_they_are_not_looked_for_above_the_script_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert "Net" not in _networks(tmp_path / "project", "models.net")


def test_a_repository_that_is_one_package_is_found_by_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "physics"
    (root / ".git").mkdir(parents=True)
    (root / "__init__.py").write_text("")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert "Net" in _networks(root, "physics.models.net")


def test_a_folder_and_a_large_file_of_the_project_are_there(follow: Any) -> None:
    text = """
        import os
        folder = [os.path.exists("data"), os.path.isdir("data"), os.path.isfile("data")]
        file = [os.path.exists("data/a.bin"), os.path.isdir("data/a.bin"), os.path.isfile("data/a.bin")]
        none = [os.path.exists("runs"), os.path.isdir("runs"), os.path.isfile("runs")]
    """
    followed = follow(text, {"data/a.bin": "0" * 2_000_001})
    assert followed["folder"] == [True, True, False]
    assert followed["file"] == [True, False, True]
    assert followed["none"] == [False, False, False]


@pytest.mark.parametrize(("where", "followed"), [(".", True), ("tools", False)])
def test_a_package_beside_the_script_hides_a_library_of_its_name(tmp_path: Path, where: str, followed: bool) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "__init__.py").write_text("from .net import Net\n")
    (tmp_path / "datasets" / "net.py").write_text(NETWORK)
    script = tmp_path / where / "train.py"
    script.parent.mkdir(exist_ok=True)
    script.write_text(SCRIPT.format(module="datasets"))
    reading: Reading = read(read_script(script))
    found = [one.cls.qualname for one in reading.made("model") + reading.networks if one.cls is not None]
    assert ("Net" in found) is followed


def test_a_library_whose_networks_are_known_is_never_hidden(tmp_path: Path) -> None:
    (tmp_path / "timm.py").write_text(NETWORK)
    (tmp_path / "train.py").write_text(SCRIPT.format(module="timm"))
    reading: Reading = read(read_script(tmp_path / "train.py"))
    assert not [one for one in reading.made("model") + reading.networks if one.cls is not None]
