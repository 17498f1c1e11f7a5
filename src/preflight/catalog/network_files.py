"""The networks of libraries, drawn from their layers: files in the form of Python.

They are read as scripts are; a dry run executes them in the place of a library that is not there.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "networks"
"""One folder for each library."""


def network_file(library: str, name: str) -> Path | None:
    """Return the file that draws what a function or class of a library makes, or None.

    Args:
        library: The first part of the library's names: ``torchvision``.
        name: The last part of the function's or class's: ``resnet50``.
    """
    return _drawn(library).get(name)


def drawn_names(library: str) -> list[str]:
    """Return the names of a library whose networks are drawn, sorted."""
    return sorted(_drawn(library))


@cache
def _drawn(library: str) -> dict[str, Path]:
    folder = FOLDER / library
    files = sorted(folder.glob("*.py")) if library.isidentifier() and folder.is_dir() else []
    return {
        name: file
        for file in files
        for name in re.findall(r"^(?:def|class) ([A-Za-z]\w*)\(", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
