"""Where the text of a program could bring a copy of a network on: what writes to weights, and copies that are made again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from preflight.monitor.collect import untaken
from preflight.monitor.collect.untaken import ways

from ..programs import preflight

START = """
def main():
    policy = Net()
    target = copy.deepcopy(policy)
    for parameter in target.parameters():
        parameter.requires_grad = False
    optimizer = torch.optim.Adam(policy.parameters())
    total, count = 0.0, 0
    for step in range(100):
        loss = (policy(x) - target(y)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        count += 1
"""


class_of = """
class Agent:
    def __init__(self):
        self.policy = Net()
        self.target = copy.deepcopy(self.policy)
"""


@pytest.mark.parametrize("text", [START, class_of, "", "# target.load_state_dict(policy.state_dict())\n"])
def test_a_text_that_makes_a_copy_once_has_no_way(text: str) -> None:
    assert ways(text) == []


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ("        if step % 1000 == 0:\n            target.load_state_dict(policy.state_dict())\n", 17),
        ("        if step % 1000 == 0:\n            target = copy.deepcopy(policy)\n", 17),
        ("        for a, b in zip(target.parameters(), policy.parameters()):\n            a += 0.1 * (b - a)\n", 17),
        ("        for a, b in zip(target.parameters(), policy.parameters()):\n            a.data = b\n", 17),
        ("        torch._foreach_lerp_(list(target.parameters()), list(policy.parameters()), 0.1)\n", 16),
        ("        target.layer.weight = policy.layer.weight\n", 16),
        ("        library.polyak(policy, target)\n", 16),
        ("        brought_on(target)\n\ndef brought_on(target):\n    return copy.deepcopy(target)\n", 19),
    ],
)
def test_what_may_write_to_weights_is_a_way(more: str, line: int) -> None:
    assert line in ways(START + more)


def test_a_copy_for_an_attribute_is_a_way_where_no_network_is_made() -> None:
    assert ways(class_of + "    def follow(self):\n        self.target = copy.deepcopy(self.policy)\n") == [7]


PROGRAM = """
import copy
import torch
from torch import nn

torch.manual_seed(0)
values = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 3))
target = copy.deepcopy(values)
optimizer = torch.optim.Adam(values.parameters(), lr=1e-3)
states, after = torch.randn(400, 4), torch.randn(400, 4)
for step in range(80):
    rows = torch.randint(0, 400, (24,))
    with torch.no_grad():
        best = states[rows, 0] + 0.9 * target(after[rows]).max(1).values
    loss = nn.functional.smooth_l1_loss(values(states[rows])[:, 0], best)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LATER = """    if step % 500 == 499:
        target.load_state_dict(values.state_dict())
"""


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(("more", "told"), [("", 1), (LATER, 0)])
def test_a_target_is_told_of_that_no_line_brings_on_and_not_one_that_a_trial_does_not_come_to(
    tmp_path: Path, more: str, told: int
) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(PROGRAM + more)
    ran = preflight("monitor", "run", "-o", "t", "--", sys.executable, "train.py", cwd=tmp_path)
    assert ran.stderr.count("copies-move-on") == told, ran.stderr
    assert "ways" not in ran.stderr


NEVER = """
import torch
from torch import nn

torch.manual_seed(0)
body, first, second = nn.Linear(4, 16), nn.Linear(16, 1), nn.Linear(16, 1)
critic = nn.Linear(4, 1)
optimizer = torch.optim.SGD([*body.parameters(), *first.parameters(), *second.parameters()], lr=0.01)
other = torch.optim.SGD(critic.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
for step in range(40):
    x = torch.randn(16, 4)
    seen = body(x).tanh()
    main_loss = nn.functional.mse_loss(first(seen)[:, 0] + critic(x)[:, 0], x[:, 0] * x[:, 1])
    side_loss = nn.functional.l1_loss(second(seen)[:, 0], x[:, 2])
    loss = main_loss
    {join}
    optimizer.zero_grad()
    other.zero_grad()
    loss.backward()
    optimizer.step()
    {later}
"""
LINES = {
    "join": "loss = loss + side_loss if step > 500 else loss",
    "later": "if step > 500:\n        other.step()\n        schedule.step()",
}
TOLD = ("schedules-are-stepped", "optimizers-take-turns", "heads-are-taught")


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("lines", [dict.fromkeys(LINES, ""), LINES], ids=["no line", "a line for later"])
def test_what_no_line_does_is_told_of_after_few_steps(tmp_path: Path, lines: dict[str, str]) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(NEVER.format(**lines))
    ran = preflight("monitor", "run", "-o", "t", "--", sys.executable, "train.py", cwd=tmp_path)
    assert [name in ran.stderr for name in TOLD] == [not lines["later"]] * len(TOLD), ran.stderr


class Told:
    """A recorder that keeps what it is told."""

    def __init__(self) -> None:
        self.iteration = 0
        self.rows: list[tuple[str, dict[str, list[str]]]] = []

    def wants(self, *kinds: str) -> bool:
        return True

    def enter(
        self, name: str, subject: str, seen: dict[str, list[str]], placed: bool
    ) -> tuple[str, dict[str, list[str]]]:
        return name, seen

    def leave(self, entry: tuple[str, dict[str, list[str]]]) -> None:
        self.rows.append(entry)


def test_it_is_told_while_the_program_runs_and_at_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "train.py"
    path.write_text(NEVER.format(join="", later=""))
    monkeypatch.setattr(untaken, "files", lambda: [str(path)])
    made = {"scheduler of optimizer0:SGD": [("StepLR", f"{path}:10")], "optimizer1:SGD": [("SGD", f"{path}:9")]}
    recorder = Told()
    part = untaken.Untaken(recorder, {}, lambda: made, lambda: [f"{path}:15"])  # type: ignore[arg-type]
    part.boundary()
    assert recorder.rows == []
    recorder.iteration = 64
    part.boundary()
    part.boundary()
    ((name, told),) = recorder.rows
    assert name == "never"
    assert told["step"] == ["optimizer1:SGD", "scheduler of optimizer0:SGD"]
    assert len(told["backward"]) == 1
    path.write_text(path.read_text() + "    optimizer.param_groups[0]['lr'] = 0.1\n")
    part.end()
    assert recorder.rows[-1][1]["step"] == ["optimizer1:SGD"]
