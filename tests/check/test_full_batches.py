"""Training on all data at once: each step is an epoch, and an evaluation comes with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.check.api import analyze

GRAPH = """
import torch
from torch import nn
model = nn.Linear(8, 3).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, y = torch.randn(100, 8).cuda(), torch.randint(0, 3, (100,)).cuda()
masks = [torch.rand(100) < 0.3 for _ in range(SETS)]
for epoch in range(200):
    model.train()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    model.eval()
    with GUARD:
        out = model(x)
        for mask in masks:
            print((out.argmax(1)[mask] == y[mask]).float().mean().item())
"""


@pytest.mark.parametrize(("guard", "told"), [("torch.no_grad()", []), ("torch.enable_grad()", ["warning"])])
def test_figures_of_an_evaluation_are_there_to_be_read(tmp_path: Path, guard: str, told: list[str]) -> None:
    path = tmp_path / "train.py"
    path.write_text(GRAPH.replace("GUARD", guard).replace("SETS", "int(input())"))
    found = [finding for finding in analyze(path).findings if finding.code == "EFF001"]
    assert [finding.severity for finding in found] == told  # what is only information is not shown unless asked for


EPOCHS = """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(8, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(200):
    model.train()
    total = 0.0
    for x, y in TRAINED:
        total = total + nn.functional.cross_entropy(model(x), y)
        BACKWARD
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        hits = sum((model(x).argmax(1) == y).sum() for x, y in DataLoader(other, 64))
"""


def _codes(tmp_path: Path, script: str) -> set[str]:
    path = tmp_path / "train.py"
    path.write_text(script)
    return {finding.code for finding in analyze(path).findings}


def test_where_training_data_is_gone_through_each_time_the_step_is_an_epoch(tmp_path: Path) -> None:
    epoch = EPOCHS.replace("TRAINED", "DataLoader(data, 64, shuffle=True)").replace("BACKWARD", "total.backward()")
    assert "EFF025" not in _codes(tmp_path, epoch)
    step = EPOCHS.replace("TRAINED", "[next(batches)]").replace("BACKWARD", "pass")
    assert "EFF025" in _codes(tmp_path, step)
