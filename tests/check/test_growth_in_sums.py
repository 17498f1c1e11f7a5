"""A sum of losses whose graphs are retained: each step keeps its activations, until they fill the GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight import analyze
from preflight.vocabulary.report import Report

_SCRIPT = """
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4096, 8192), nn.ReLU(), nn.Linear(8192, 4096), nn.ReLU(), nn.Linear(4096, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
total = 0.0
for step in range(1000):
    inputs = torch.randn(16384, 4096, device="cuda")
    labels = torch.randint(0, 10, (16384,), device="cuda")
    loss = nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward(BACKWARD)
    optimizer.step()
    KEPT
"""


def _report(tmp_path: Path, backward: str, kept: str) -> Report:
    script = tmp_path / "train.py"
    script.write_text(_SCRIPT.replace("BACKWARD", backward).replace("KEPT", kept), encoding="utf-8")
    return analyze(script, gpu="H200")


def test_the_step_at_which_retained_graphs_fill_the_gpu_is_told(tmp_path: Path) -> None:
    # On an H200 the program runs out of memory in step 137 (benchmarks/gpu/measured.toml, "grows").
    report = _report(tmp_path, "retain_graph=True", "total = total + loss")
    assert {"MEM017", "MEM026"} <= {finding.code for finding in report.findings if finding.severity == "error"}
    assert report.verdict == "NO-GO"
    assert report.memory is not None
    assert report.memory.oom is not None
    assert report.memory.oom.step == pytest.approx(137, abs=4)


@pytest.mark.parametrize(
    ("backward", "kept"),
    [
        ("", "total = total + loss"),
        ("retain_graph=True", "total = total + loss.item()"),
        ("retain_graph=True", "total = 0.0 if step % 10 == 0 else total + loss"),
    ],
    ids=["freed", "a number", "set back on the way"],
)
def test_what_is_freed_or_set_back_fills_nothing(tmp_path: Path, backward: str, kept: str) -> None:
    report = _report(tmp_path, backward, kept)
    assert report.verdict == "GO"
    assert report.memory is not None
    assert report.memory.oom is None
