"""The healthy reference programs: each can be read, says what it is, and says in words that are understood how it starts."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Any

import pytest

MONITOR = Path(__file__).resolve().parents[2] / "benchmarks" / "monitor"
PROGRAMS = sorted((MONITOR / "healthy").glob("*.py"))


@pytest.fixture(scope="module")
def healthy() -> Any:
    spec = importlib.util.spec_from_file_location("healthy_programs", MONITOR / "healthy_programs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_says_what_it_is_and_how_it_starts(healthy: Any, path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert len(healthy.summary(path)) > 20
    assert text.count(healthy.HEADER) <= 1
    words = healthy.launch(path)
    assert words[0] in healthy.LAUNCHERS
    assert (words == ["python"]) == (healthy.HEADER not in text), "the header is too far down, or says nothing"
    strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert {"--seed", "--steps"} <= strings
    assert "preflight" not in text, "a reference program knows nothing of its monitor"


def test_a_launcher_is_run_as_a_module_of_the_interpreter(healthy: Any, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text('"""Trains."""\n# launch: torchrun --nproc-per-node 2\n')
    assert healthy.command(path, ["--seed", "3"], "python3.11") == [
        *("python3.11", "-m", "torch.distributed.run", "--nproc-per-node", "2"),
        *(str(path), "--seed", "3"),
    ]
    path.write_text('"""Trains."""\n')
    assert healthy.command(path, [], "python3.11") == ["python3.11", str(path)]


def test_programs_are_held_out_and_are_there(healthy: Any) -> None:
    names = healthy.heldout()
    assert len(names) == len(set(names)) >= 15
    assert set(names) < {path.stem for path in PROGRAMS}


def test_the_readme_lists_the_programs_that_are_there(healthy: Any) -> None:
    assert healthy.README.read_text(encoding="utf-8") == healthy.listing(), "run benchmarks/monitor/healthy_programs.py"
