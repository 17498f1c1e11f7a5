"""The recorded runs of benchmarks/investigate/faults: every case is there, says what is true of it, and names no machine."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from preflight.vocabulary.incident import RunState, Scope
from preflight.vocabulary.signature import Category

try:
    import tomllib
except ModuleNotFoundError:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
RUNS = Path(__file__).parent / "data" / "faults"
CASES = tomllib.loads((ROOT / "benchmarks" / "investigate" / "faults" / "cases.toml").read_text(encoding="utf-8"))


def truth(name: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((RUNS / name / "truth.json").read_text(encoding="utf-8"))
    return told


def test_every_case_was_made_and_nothing_else_lies_there() -> None:
    assert {path.name for path in RUNS.iterdir()} == set(CASES)
    assert sum(case.get("category") != "none" for case in CASES.values()) >= 17


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_case_says_what_is_true_of_it(name: str) -> None:
    told = truth(name)
    assert {"category", "state", "culprit", "how"} <= set(told)
    assert {told["category"], told.get("symptom", "none"), *told.get("also", ())} <= set(get_args(Category))
    assert {told["state"], *told.get("also_state", ())} <= set(get_args(RunState))
    assert told.get("scope") in (None, *get_args(Scope))
    assert set(told["culprit"]) <= set(range(told["world_size"]))
    assert not told["how"].startswith(("imitated", "not made"))
    codes = set(told["agent_exit_codes"].values())
    ends = {"none": {0}, "data": {0, 1}, "hardware": {0, 1, -9}}
    assert codes <= ends.get(told["category"], {1, None, -9}), "the run did not end as the case means it to"


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_run_names_nobody(name: str) -> None:
    for path in (RUNS / name).rglob("*"):
        if path.is_file():
            text = path.read_bytes().decode("utf-8", "replace")
            assert not re.search(r"/(?:root|tmp|work)/|\b192\.0\.2\.", text), path
    assert any((RUNS / name / "run").rglob("*.log"))


def test_they_are_small() -> None:
    assert sum(path.stat().st_size for path in RUNS.rglob("*") if path.is_file()) < 1_000_000
