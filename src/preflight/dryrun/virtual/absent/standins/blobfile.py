"""What training scripts use of blobfile, where it is not installed: local files."""

from __future__ import annotations

import glob as _glob
import os
import shutil
from collections.abc import Iterator
from typing import Any

basename, dirname, exists, isdir, join = os.path.basename, os.path.dirname, os.path.exists, os.path.isdir, os.path.join
listdir, remove = os.listdir, os.remove
scandir, walk, rmtree, copy, stat = os.scandir, os.walk, shutil.rmtree, shutil.copyfile, os.stat


def BlobFile(path: Any, mode: str = "r", *_: Any, **__: Any) -> Any:
    """Open a file."""
    return open(path, mode)


def makedirs(path: Any) -> None:
    """Make a folder and those above it."""
    os.makedirs(path, exist_ok=True)


def glob(pattern: str, **_: Any) -> Iterator[str]:
    """Yield what a pattern finds."""
    return _glob.iglob(pattern, recursive=True)
