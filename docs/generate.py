"""Writes the reference pages that come from the program itself; ``make docs`` runs it and a test compares.

``python docs/generate.py`` writes, ``python docs/generate.py --check`` only says which pages are out of date.
What is written stands in ``docs/written``, a file for each kind of page.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
REFERENCE = HERE / "reference"
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))  # a test loads this file by its path


def pages() -> dict[str, str]:
    """Return every generated page by its path in ``docs/reference``."""
    found: dict[str, str] = {}
    for path in sorted((HERE / "written").glob("*.py")):
        if path.stem != "__init__":
            found |= importlib.import_module(f"written.{path.stem}").pages()
    return found


def stale() -> list[str]:
    """Return the pages that are missing, differ from what would be written now, or are of things that are gone."""
    wanted = pages()
    differing = [
        name
        for name, text in wanted.items()
        if not (path := REFERENCE / name).is_file() or path.read_text("utf-8") != text
    ]
    return differing + left_over(wanted)


def left_over(wanted: dict[str, str]) -> list[str]:
    """Return the pages that nothing writes; only the front page of the reference is written by hand."""
    there = (path.relative_to(REFERENCE).as_posix() for path in REFERENCE.rglob("*.md"))
    return sorted(name for name in there if name not in wanted and name != "README.md")


def main() -> int:
    """Write the pages, or check them."""
    if "--check" in sys.argv[1:]:
        out_of_date = stale()
        for name in out_of_date:
            print(f"docs/reference/{name} is out of date; run `make docs`", file=sys.stderr)
        return 1 if out_of_date else 0
    wanted = pages()
    for name in left_over(wanted):
        (REFERENCE / name).unlink()
    for name, text in wanted.items():
        (REFERENCE / name).parent.mkdir(parents=True, exist_ok=True)
        (REFERENCE / name).write_text(text, encoding="utf-8", newline="\n")
    print(f"{len(wanted)} pages in docs/reference")
    return 0


if __name__ == "__main__":
    sys.exit(main())
