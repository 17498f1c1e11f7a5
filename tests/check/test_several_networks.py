"""What is said of a script that trains more than one network."""

from __future__ import annotations

from pathlib import Path

from preflight import analyze
from preflight.check.forward.kept import together
from preflight.source.architecture import networks_of
from preflight.source.reading import read
from preflight.source.script import read_script
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.model import ModelSpec

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


def test_networks_that_are_trained_side_by_side_are_added_up(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT.replace("PART", "pass").replace("OF", "maker"))
    report = analyze(path)
    assert report.facts["model.parameters"].value == 8 * 1 + 1 + 4 * 8 + 8
    assert report.memory is not None
    assert report.memory.peak_bytes is not None
    assert "several networks" not in " ".join(report.notes)


def test_what_one_network_makes_is_what_the_other_is_given(tmp_path: Path) -> None:
    loop = (
        SCRIPT.replace("PART", "pass").replace("OF", "maker").replace("torch.randn(16, 4)", "torch.randn(len(real), 4)")
    )
    path = tmp_path / "train.py"
    path.write_text(
        loop.replace("for real in loader:", "for real in torch.utils.data.DataLoader(data, batch_size=16):").replace(
            "(critic(made.detach()) - critic(real))", "critic(made.detach())"
        )
    )
    reading = read(read_script(path))
    facts = {"batch.micro": Fact(16, None, None), "image_size": Fact(None), "sequence_length": Fact(None)}
    spec = together(reading, facts, ModelSpec(family="other"), networks_of(reading))
    assert spec.activation_reason is None
    assert spec.activation_elements == 4 + 8  # what each product is given


def test_where_the_size_of_one_is_not_known_the_figures_are_said_to_be_of_one_alone(tmp_path: Path) -> None:
    script = SCRIPT.replace("PART", "self.other = nn.Linear(width, 3)").replace("OF", "maker")
    assert "several networks are trained (Critic, Maker)" in _notes(tmp_path, script)


def test_that_one_of_them_fits_does_not_make_it_go(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT.replace("PART", "self.other = nn.Linear(width, 3)").replace("OF", "maker"))
    report = analyze(path, gpu="a100-80gb")
    assert report.verdict == "UNKNOWN"
    assert report.memory is not None
    assert report.memory.fits == "unknown"
    assert "other networks" in str(report.memory.reason)


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


_IN_TURN = """
import torch
from torch import nn

class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(64, 1000000)

    def forward(self, x, y):
        return nn.functional.cross_entropy(self.out(x), y)

one, two = Words().cuda(), Words().cuda()
first, second = (torch.optim.SGD(net.parameters(), lr=1e-3) for net in (one, two))
for step in range(100):
    x, y = torch.randn(1900, 64, device="cuda"), torch.randint(0, 1000000, (1900,), device="cuda")
    first.zero_grad()
    one(x, y).backward()
    first.step()
    second.zero_grad()
    two(x, y).backward()
    second.step()
"""


def test_the_losses_of_networks_that_are_trained_in_turn_need_not_be_alive_at_once(tmp_path: Path) -> None:
    # 1,900 x 1,000,000 logits are 7.1 GiB, four of that size 28.3 GiB: of one network they fit, of both at once they do not.
    path = tmp_path / "train.py"
    path.write_text(_IN_TURN)
    report = analyze(path, gpu="a100-40gb")
    assert report.verdict == "UNKNOWN"
    assert report.memory is not None
    assert "all together would not fit" in str(report.memory.reason)
