"""What a dry run takes back of what was read, and what it must not."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.check.asked import Options
from preflight.check.session import check_text

pytestmark = [pytest.mark.torch, pytest.mark.slow]

_SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(16, 4)

    def forward(self, x):
        return torch.relu(self.last(x))

rows = TensorDataset(torch.randn(64, 16), torch.randint(0, 4, (64,)))
train, valid = DataLoader(rows, batch_size=8, shuffle=True), DataLoader(rows, batch_size=8)
net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in train:
    x, y = x.cuda(), y.cuda()
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
total = 0.0
for x, y in valid:
    x, y = x.cuda(), y.cuda()
    logits = net(x)
    total += nn.functional.cross_entropy(logits, y).item()
print(total)
"""


def test_an_evaluation_that_stays_in_training_mode_records_gradients_all_the_same(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(_SCRIPT, encoding="utf-8")
    read, ran = (check_text(script, Options(gpu="h100", dry_run=run, probe=False)) for run in (False, True))
    for code in ("MEM011", "LOS006"):
        lines = [one.location.line for one in read.findings if one.code == code]
        assert len(lines) == 1, code
        assert [one.location.line for one in ran.findings if one.code == code] == lines
