"""Runs small programs on a virtual A100."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from preflight.catalog.hardware import resolve_gpu
from preflight.dryrun.launch import Job, dry_run
from preflight.vocabulary.profile import Profile


@pytest.fixture
def run_program(tmp_path: Path) -> Callable[[str], Profile]:
    """Return what runs a program to its end and says what was seen."""

    def run(text: str) -> Profile:
        script = tmp_path / "train.py"
        script.write_text(textwrap.dedent(text), encoding="utf-8")
        gpu = resolve_gpu("a100-80gb")
        seen = dry_run(Job(script=str(script), root=str(tmp_path), gpu=gpu, capacity_bytes=80 << 30, seconds=150))
        assert seen.outcome == "ended", (seen.outcome, seen.error, seen.message, seen.frames)
        return seen

    return run
