"""Plans of whole training scripts, held against what one H200 measured (benchmarks/gpu/measured.toml)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from preflight.cli.main import main

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

GPU = Path(__file__).parents[2] / "benchmarks" / "gpu"
ROWS: dict[str, Any] = {
    row["name"]: row for row in tomllib.loads((GPU / "measured.toml").read_text(encoding="utf-8"))["workload"]
}


@pytest.mark.parametrize(
    "name", ["gpt2_fp32", "gpt2_autocast", "gpt2_medium_recomputed", "llama_1b", "bert_fp16", "vit_base"]
)
def test_the_measured_step_and_peak_lie_within_what_is_planned(name: str, tmp_path: Path) -> None:
    written = tmp_path / "plan.json"
    script = GPU / "programs" / f"{name}.py"
    assert main(["plan", str(script), "--gpu", "h200", "--gpus", "1", "--format", "json", "-o", str(written)]) == 0
    told, row = json.loads(written.read_bytes()), ROWS[name]
    seconds, peak = told["step"]["seconds"], told["memory"]["peak_bytes"]
    assert seconds["low"] <= row["seconds_per_step"] <= seconds["high"]
    assert seconds["mid"] == pytest.approx(row["seconds_per_step"], rel=0.2)
    assert peak["low"] <= row["allocated"] <= peak["high"]
