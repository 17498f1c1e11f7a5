"""Plans of whole training scripts, held against what one H200 measured (benchmarks/gpu/measured.toml)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.measured_on_a_gpu import MEASURED, PROGRAMS

from preflight.cli.main import main


@pytest.mark.parametrize(
    "name", ["gpt2_fp32", "gpt2_autocast", "gpt2_medium_recomputed", "llama_1b", "bert_fp16", "vit_base"]
)
def test_the_measured_step_and_peak_lie_within_what_is_planned(name: str, tmp_path: Path) -> None:
    written = tmp_path / "plan.json"
    script = PROGRAMS / f"{name}.py"
    assert main(["plan", str(script), "--gpu", "h200", "--gpus", "1", "--format", "json", "-o", str(written)]) == 0
    told, row = json.loads(written.read_bytes()), MEASURED[name]
    seconds, peak = told["step"]["seconds"], told["memory"]["peak_bytes"]
    assert seconds["low"] <= row["seconds_per_step"] <= seconds["high"]
    assert seconds["mid"] == pytest.approx(row["seconds_per_step"], rel=0.2)
    assert peak["low"] <= row["allocated"] <= peak["high"]
