"""What is nested more deeply than can be followed is wrong input, told like any other, and never an internal error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from preflight.catalog.files import parse
from preflight.check.files.baseline import read_baseline
from preflight.check.files.project_config import load_project
from preflight.cli.parts.fixes import read_incident
from preflight.errors import PreflightError
from preflight.plan.calibration.record import load
from preflight.report.json import from_json
from preflight.source.dumps.opening import formats, read_dump
from preflight.source.launch_config import with_config
from preflight.source.launcher import Launch
from preflight.source.notebook import code_of
from preflight.vocabulary.log import LogFile

DEPTH = 20_000
DEEP = "[" * DEPTH + "]" * DEPTH
REFUSED: dict[str, tuple[str, str, Callable[[str], object]]] = {
    "baseline": ("known.json", '{"findings": ' + DEEP + "}", read_baseline),
    "calibration": ("times.json", '{"schema": ' + DEEP + "}", load),
    "catalog": ("gpu.toml", f"sources = {DEEP}", parse),
    "incident": ("report.json", '{"incident": ' + DEEP + "}", read_incident),
    "launch": ("launch.yaml", f"a: {DEEP}", lambda path: with_config(Launch(framework="accelerate", config=path))),
    "notebook": ("train.ipynb", '{"cells": ' + DEEP + "}", lambda path: code_of(Path(path).read_bytes(), path)),
    "project": ("pyproject.toml", f"[tool.preflight]\nselect = {DEEP}", load_project),
    "report": ("report.json", '{"notes": ' + DEEP + "}", lambda path: from_json(Path(path).read_text())),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_followed_is_refused(tmp_path: Path, what: str) -> None:
    name, text, read = REFUSED[what]
    (tmp_path / name).write_text(text)
    with pytest.raises(PreflightError):
        read(str(tmp_path / name))


@pytest.mark.parametrize("module", formats(), ids=lambda module: module.__name__.rpartition(".")[2])
@pytest.mark.parametrize("text", [DEEP, '{"entries": ' + DEEP + "}", '{"message": {"message": ' + DEEP + "}}"])
def test_no_dump_ends_the_reading(module: object, text: str) -> None:
    part = read_dump(module, text.encode(), LogFile(index=0, path="x", kind="text"))  # type: ignore[arg-type]
    assert not part.stacks
