"""What is said of a script that trains more than one network."""

from __future__ import annotations

from pathlib import Path

from preflight import analyze

SCRIPT = """
import torch
from torch import nn
class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)
    def forward(self, x):
        return self.layer(x)
class Maker(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 8)
        PART
    def forward(self, z):
        return self.layer(z)
critic, maker = Critic(), Maker()
first = torch.optim.Adam(critic.parameters())
second = torch.optim.Adam(OF.parameters())
for real in loader:
    made = maker(torch.randn(16, 4))
    first.zero_grad()
    (critic(made.detach()) - critic(real)).mean().backward()
    first.step()
    second.zero_grad()
    (-critic(made)).mean().backward()
    second.step()
"""


def _notes(tmp_path: Path, script: str) -> str:
    path = tmp_path / "train.py"
    path.write_text(script)
    return " ".join(analyze(path).notes)


def test_the_figures_are_said_to_be_of_one_alone(tmp_path: Path) -> None:
    assert "several networks are trained (Critic, Maker)" in _notes(
        tmp_path, SCRIPT.replace("PART", "pass").replace("OF", "maker")
    )


def test_a_part_of_a_network_is_none_of_its_own(tmp_path: Path) -> None:
    script = (
        SCRIPT.replace("PART", "self.part = critic")
        .replace("OF", "maker")
        .replace("critic, maker = Critic(), Maker()", "critic = Critic()\nmaker = Maker()")
    )
    assert "several networks" not in _notes(tmp_path, script)


def test_where_a_step_waits_for_a_count_nothing_is_said_of_accumulation(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("""
import torch
net = torch.nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
last = -1
for i, x in enumerate(loader):
    net(x).mean().backward()
    if i - last >= every:
        opt.step()
        opt.zero_grad()
        last = i
""")
    assert analyze(path).facts["gradient_accumulation"].value is None
