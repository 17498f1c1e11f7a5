"""The page on the architecture names the rooms that there are, and files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "src" / "preflight"


def test_every_room_is_named() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.glob("**/*.py"))}
    section = PAGE.partition("## Rooms")[2].partition("## One file")[0]
    named = set(re.findall(r"^\| `(\w+)`", section, re.MULTILINE))
    assert rooms == named


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:\w+|\.ci)/[\w./]*\w)`", PAGE))))
def test_every_path_is_there(path: str) -> None:
    assert (ROOT / path).exists() or (PACKAGE / path).exists()
