"""The page on the architecture names the rooms that there are; it and CONTRIBUTING name files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "preflight"
TEXTS = {
    name: (ROOT / name).read_text(encoding="utf-8")
    for name in ("docs/architecture.md", "CONTRIBUTING.md", "SECURITY.md")
}
PAGE = TEXTS["docs/architecture.md"]
STANDS_FOR = re.compile(r"GROUP|NAME|CODE|X\.Y|\bname(?:_of_\w+)?\.\w+$")
"""What stands in a path for a name that the reader chooses."""


def rooms_of(room: str) -> set[str]:
    """The rooms within a room."""
    return {path.parent.name for path in (PACKAGE / room).glob("*/__init__.py")}


def paths(text: str) -> set[str]:
    """Every word within `code` or a block that is a path or a file of ours; of one with a placeholder, the folder."""
    found = set()
    for words in re.findall(r"```\w*\n(.*?)```|`([^`\n]+)`", text, re.DOTALL):
        for word in " ".join(words).split():
            path = word.strip(",;:()")
            if re.fullmatch(r"[\w.-]+(?:/[\w.-]+)+/?|\w+\.(?:py|md|toml|yml)", path) and "whl/" not in path:
                kept = STANDS_FOR.search(path)
                found.add(path[: kept.start()].rpartition("/")[0] if kept else path)
    return found - {""}


def test_every_room_is_named() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.glob("**/*.py"))}
    section = PAGE.partition("## Rooms")[2].partition("## One file")[0]
    named = set(re.findall(r"^\| `(\w+)`", section, re.MULTILINE))
    assert rooms == named


@pytest.mark.parametrize(
    ("text", "path"), [(name, path) for name, text in TEXTS.items() for path in sorted(paths(text))]
)
def test_every_path_is_there(text: str, path: str) -> None:
    made = path.startswith(("build/", ".venv"))  # by the commands of the page
    assert made or (ROOT / path).exists() or (PACKAGE / path).exists()


def test_paths_are_found_and_placeholders_cut_off() -> None:
    text = "`pytest tests/a.py -k CODE`, `src/x/GROUP/name_of_rule.py`, `a and b`\n```\nmake x\n```\n`errors.py`, `I/O`"
    assert paths(text) == {"tests/a.py", "src/x", "errors.py", "I/O"}
