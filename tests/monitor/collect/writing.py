"""Reads what a writer wrote, and runs programs that write."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from preflight.monitor.collect import writer
from preflight.monitor.trace.reader import Block, Reader

SOURCE = Path(writer.__file__).resolve().parents[3]
NEVER = 3600.0
"""An interval after which nothing is written before the test has ended."""
posix = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork and no limit of the size of a file")


def read(path: str | Path) -> tuple[list[Block], Reader]:
    reader = Reader(Path(path))
    blocks = list(reader.poll())
    reader.finish()
    return blocks, reader


def column(path: str | Path, kind: str, column: str) -> list[Any]:
    return [value for block in read(path)[0] for value in block.tables.get(kind, {}).get(column, [])]


def program(folder: Path, text: str, *options: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a program beside the folder ``collect`` alone, as a package of another name."""
    package = folder / "packages" / "recorder_of_tests"
    package.parent.mkdir(exist_ok=True)
    if not package.exists():
        package.symlink_to(SOURCE / "preflight" / "monitor" / "collect", target_is_directory=True)
    start = (
        "import os, sys, signal, threading, time\n"
        f"sys.path.insert(0, {str(package.parent)!r})\n"
        "from recorder_of_tests.writer import Writer\n"
        "def call(q, i=0): return (q, q, q, 1, i, i, 'step', 'model', -1, 1, None, None, None, None, None)\n"
    )
    script = folder / "program.py"
    script.write_text(start + text)
    command = [sys.executable, "-I", "-W", "error", *options, str(script)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=folder, **more)
