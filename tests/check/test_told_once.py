"""One mistake is told once, however often the script comes by it."""

from __future__ import annotations

from pathlib import Path

from preflight import analyze


def _lines(tmp_path: Path, text: str, code: str) -> list[int | None]:
    script = tmp_path / "train.py"
    script.write_text(text, encoding="utf-8")
    found = [one for one in analyze(script).findings if one.code == code]
    return [one.location.line for one in found if one.location is not None]


def test_moves_of_one_sample(tmp_path: Path) -> None:
    text = """import torch
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __getitem__(self, i):
        return self.rows[i].cuda(), self.labels[i].long().cuda()
    def __len__(self):
        return 10
for x, y in DataLoader(Rows(), batch_size=8, shuffle=True):
    pass
"""
    assert _lines(tmp_path, text, "DAT003") == [5]


def test_an_activation_before_the_loss_that_trains_and_the_one_that_validates(tmp_path: Path) -> None:
    text = """import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(10, 5)
    def forward(self, x):
        return torch.relu(self.last(x))
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in train:
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    for x, y in valid:
        print(nn.functional.cross_entropy(net(x), y))
"""
    assert _lines(tmp_path, text, "LOS006") == [12]
