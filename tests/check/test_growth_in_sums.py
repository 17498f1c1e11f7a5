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


_EPOCHS = """
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4096, 8192), nn.ReLU(), nn.Linear(8192, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
data = torch.utils.data.TensorDataset(torch.randn(1000, 4096))
loader = torch.utils.data.DataLoader(data, batch_size=32, shuffle=True)
BEFORE
for epoch in range(100000):
    FIRST
    for (x,) in loader:
        loss = model(x.cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        total += loss
    print(epoch)
"""


@pytest.mark.parametrize(
    ("before", "first", "severity"),
    [("", "total = 0.0", "warning"), ("total = 0.0", "pass", "error")],
    ids=["begun anew in each epoch", "over all epochs"],
)
def test_a_sum_that_each_epoch_begins_anew_holds_the_graphs_of_one(
    tmp_path: Path, before: str, first: str, severity: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(_EPOCHS.replace("BEFORE", before).replace("FIRST", first), encoding="utf-8")
    report = analyze(script, gpu="H100")
    assert [finding.severity for finding in report.findings if finding.code == "MEM017"] == [severity]
    assert report.verdict == ("GO" if severity == "warning" else "NO-GO")


_SHARED = """
import torch
from torch import nn

trunk = nn.Linear(64, 64)
one, two = nn.Linear(64, 2), nn.Linear(64, 2)
optimizer = torch.optim.SGD([*trunk.parameters(), *one.parameters(), *two.parameters()], lr=1e-3)
total, kept = 0.0, []
for step in range(1000):
    inner = trunk(torch.randn(8, 64))
    first, second = one(inner).square().mean(), two(inner).square().mean()
    optimizer.zero_grad()
    first.backward(retain_graph=True)
    BACKWARD
    optimizer.step()
    KEPT
"""


@pytest.mark.parametrize(
    ("backward", "kept", "code", "severity"),
    [
        ("second.backward()", "total += first", "MEM017", "warning"),
        ("second.backward()", "kept.append(first)", "MEM010", "warning"),
        ("(first + second).backward()", "total += first", "MEM017", "warning"),
        ("second.backward(retain_graph=True)", "total += first", "MEM017", "error"),
        ("second.backward(retain_graph=True)", "kept.append(first)", "MEM010", "error"),
    ],
)
def test_what_a_second_backward_pass_frees_is_not_said_to_stay(
    tmp_path: Path, backward: str, kept: str, code: str, severity: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(_SHARED.replace("BACKWARD", backward).replace("KEPT", kept), encoding="utf-8")
    assert [finding.severity for finding in analyze(script).findings if finding.code == code] == [severity]
