"""The benchmarks' own parts that need no GPU: the list of workloads, the file of real measurements, its column."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent.parent / "benchmarks"


def _load(path: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(Path(path).stem, BENCHMARKS / path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


def test_the_gpu_runs_the_workloads_that_are_compared() -> None:
    measure, compare = _load("gpu/measure.py"), _load("dryrun/compare.py")
    assert measure.workloads("gpt2_fp32") == ["gpt2_fp32"]
    names = [name for name in measure.workloads("") if ":" in name]
    assert names == [f"{program.stem}:{case}" for program, case in compare.workloads()]
    assert len(names) >= 40


def test_what_was_measured_comes_back(tmp_path: Path) -> None:
    measure, compare = _load("gpu/measure.py"), _load("dryrun/compare.py")
    file = tmp_path / "measured.toml"
    rows = [
        {"name": "mlp:sgd", "steps": 3, "seconds_per_step": 0.001, "allocated": 1000, "reserved": 2000},
        {"name": "mlp:adam", "steps": 1, "oom_step": 1, "allocated": 1, "reserved": 1},
    ]
    file.write_text(measure.as_toml({"gpu": "NVIDIA H100", "torch": "2.13"}, rows), encoding="utf-8")
    gpu, seen = compare.measured(file)
    assert gpu == "NVIDIA H100"
    assert measure.kept(file, {"gpu": "NVIDIA H100", "torch": "2.13"}) == sorted(rows, key=lambda row: str(row["name"]))
    assert measure.kept(file, {"gpu": "another", "torch": "2.13"}) == []
    assert compare.beside(seen["mlp:sgd"], 1010, 1980, full=False) == "allocated +1.00%, reserved -1.00%"
    assert compare.beside(seen["mlp:adam"], 1, 1, full=False) == "really OOM, dry run fits"
    assert compare.measured(tmp_path / "none.toml") == ("", {})


@pytest.mark.torch
def test_a_workload_runs_on_the_cpu_too(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = _load("gpu/measure.py").apart("mlp:sgd", "cpu", 0)
    assert found["steps"] == 3
    assert found["seconds_per_step"] > 0
    assert "allocated" not in found
