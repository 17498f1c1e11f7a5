"""The story of ``examples/story`` is what its commands print."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

STORY = Path(__file__).resolve().parent.parent / "examples" / "story"
SOURCE = STORY.parent.parent / "src"
pytestmark = pytest.mark.skipif(os.name == "nt", reason="the story is told in a POSIX shell")


@pytest.fixture(scope="module")
def tell() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tell", STORY / "tell.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _told(*parts: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, (str(SOURCE), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, str(STORY / "tell.py"), *parts]
    return subprocess.run(command, env=environment, capture_output=True, text=True, encoding="utf-8")


def test_a_line_that_was_not_printed_is_seen(tell: ModuleType) -> None:
    printed = ["GO  train.py", "  0 errors", "more"]
    assert tell.selected(["GO", "..."], printed) == (["GO  train.py", "..."], None)
    assert tell.selected(["...", "more"], printed) == (["...", "more"], None)
    assert tell.selected([], printed) == ([], None)
    assert tell.selected(["NO-GO", "..."], printed)[1] == "NO-GO"
    assert tell.selected(["...", "more", "  0 errors"], printed)[1] == "  0 errors"
    assert "more" in tell.selected(["GO", "  0 errors"], printed)[1]


def test_every_block_of_the_page_is_told(tell: ModuleType) -> None:
    text = (STORY / "README.md").read_text(encoding="utf-8")
    told = tell.parts(text)
    commands = [command for _, pieces in told.values() for command, _ in pieces if command is not None]
    assert commands == [line[2:] for line in text.splitlines() if line.startswith("$ ")]
    assert list(told) == list(range(1, len(told) + 1))


def test_the_first_parts_need_no_torch() -> None:
    done = _told("1", "2")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.torch
@pytest.mark.slow
def test_the_whole_story_is_true() -> None:
    pytest.importorskip("torch")
    done = _told()
    assert done.returncode == 0, done.stdout + done.stderr
