"""Traces that are recorded once and read by many tests."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from .programs import NEVER_CLEARED, PLAIN, preflight


class Recorded(NamedTuple):
    """A program that was run once: where, what it was and said, and the trace."""

    cwd: Path
    trace: Path
    done: subprocess.CompletedProcess[str]


def _record(factory: pytest.TempPathFactory, name: str, source: str, *more: str) -> Recorded:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    cwd = factory.mktemp(name)
    (cwd / "train.py").write_text(source, encoding="utf-8")
    done = preflight("monitor", "run", "-o", "trace", *more, "--", sys.executable, "train.py", cwd=cwd)
    return Recorded(cwd, cwd / "trace", done)


@pytest.fixture(scope="session")
def healthy_run(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A run in which everything holds."""
    return _record(tmp_path_factory, "healthy", PLAIN)


@pytest.fixture(scope="session")
def broken_run(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A run whose gradients are not cleared any more from step 12 on, with the alarms in ``alerts.jsonl``."""
    return _record(tmp_path_factory, "broken", NEVER_CLEARED, "--alerts", "alerts.jsonl")


Recorder = Callable[..., Recorded]


@pytest.fixture
def record(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    """Records a program."""
    return lambda name, source, *more: _record(tmp_path_factory, name, source, *more)
