"""Which files are looked at, and which of them import a library that trains."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.check.files.discover import discover, excluded, mentions_training
from preflight.errors import InputError


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (
        "train.py", "a/b/deep.py", "a/notes.txt", "book.ipynb", ".hidden/x.py", "venv/x.py", "own/pyvenv.cfg",
        "own/x.py",
        "build/x.py", "node_modules/x.py", "x/site-packages/y.py", "a/__pycache__/x.py", "p.egg-info/x.py", "a/.x.py",
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _paths(*arguments: str, exclude: tuple[str, ...] = ()) -> list[str]:
    return [found.path.replace("\\", "/") for found in discover(arguments, exclude)]


def test_a_folder_is_searched_by_name_without_what_was_installed(tree: Path) -> None:
    assert _paths(".") == ["a/b/deep.py", "book.ipynb", "train.py"]


def test_what_is_named_is_taken_as_it_is(tree: Path) -> None:
    assert _paths("venv/x.py", "a/notes.txt") == ["venv/x.py", "a/notes.txt"]
    assert all(found.named for found in discover(["venv/x.py"]))
    assert not any(found.named for found in discover(["."]))
    assert [found.named for found in discover([".", "train.py"])] == [False, False, True]


def test_patterns(tree: Path) -> None:
    assert _paths("**/*.py", exclude=("venv", "own", "build", "node_modules", "x", "*.egg-info", "__pycache__")) == [
        "a/b/deep.py",
        "train.py",
    ]
    (tree / "odd[1].py").write_text("")
    assert _paths("odd[1].py") == ["odd[1].py"], "a file of that very name comes before the pattern"


@pytest.mark.parametrize("pattern", ["a", "a/", "./a", "a/b", "a/*", "deep.py", "**/deep.py", "*.py"])
def test_exclusions(pattern: str) -> None:
    assert excluded("a/b/deep.py", [pattern])


@pytest.mark.parametrize("pattern", ["b.py", "c", "x/a", "deep"])
def test_no_exclusions(pattern: str) -> None:
    assert not excluded("a/b/deep.py", [pattern])


def test_links_to_folders_are_not_followed(tree: Path) -> None:
    (tree / "a" / "loop").symlink_to(tree, target_is_directory=True)
    assert _paths(".") == ["a/b/deep.py", "book.ipynb", "train.py"]


def test_a_folder_in_which_everything_is_excluded(tree: Path) -> None:
    with pytest.raises(InputError, match="every Python file in it is excluded"):
        discover(["a"], ["*.py"])
    (tree / "none").mkdir()
    with pytest.raises(InputError, match="there is no Python file"):
        discover(["none"])


@pytest.mark.parametrize(
    "text",
    [
        "import torch", "import os, torch.nn as nn", "from torch import nn", "  import lightning as L",
        "x = 1; import torch", "import numpy\r\nfrom transformers import Trainer",
        '{"source": ["import torch\\n"]}', '["  from timm import x"]',
    ],
)  # fmt: skip
def test_imports_are_seen(text: str) -> None:
    assert mentions_training(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "import torchlight",
        "# we use torch here",
        "import os\n# import of torch",
        "from mytorch import x",
        "import_torch = 1",
    ],
)
def test_words_are_not_imports(text: str) -> None:
    assert not mentions_training(text.encode())
