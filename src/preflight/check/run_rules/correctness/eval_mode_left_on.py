"""Sees a training loop whose next round would train in eval mode, or does."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.eval_mode_left_on import RULE
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.seen import Observation

BAD = (
    """
import torch
from torch import nn
class Trainer:
    modes = {"test": "eval"}
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 2)).cuda()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
    def set(self, mode):
        getattr(self.net, self.modes[mode])()
    def validate(self):
        self.set("test")
        with torch.no_grad():
            for _ in range(5):
                self.net(torch.randn(4, 8).cuda())
    def fit(self):
        for epoch in range(10):
            for _ in range(20):
                self.optimizer.zero_grad()
                self.net(torch.randn(4, 8).cuda()).sum().backward()
                self.optimizer.step()
            self.validate()
Trainer().fit()
""",
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def evaluate(model):
    for part in model.children():
        part.train(False)
    with torch.no_grad():
        model(torch.randn(4, 8).cuda())
net.train()
for step in range(100):
    optimizer.zero_grad()
    net(torch.randn(4, 8).cuda()).sum().backward()
    optimizer.step()
    if step % 50 == 0:
        evaluate(net)
""",
    """
import torch
from torch import nn
from contextlib import contextmanager
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.drop = nn.Linear(8, 8), nn.Dropout(0.1)
    def forward(self, x):
        return self.drop(self.fc(x))
@contextmanager
def evaluating(net):
    net.eval()
    yield
net = Net().to("cuda")
optimizer = torch.optim.AdamW(net.parameters())
for epoch in range(3):
    for _ in range(4):
        optimizer.zero_grad()
        net(torch.randn(4, 8, device="cuda")).sum().backward()
        optimizer.step()
    with evaluating(net), torch.no_grad():
        net(torch.randn(4, 8, device="cuda"))
""",
)

GOOD = (
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(5):
    for phase in ("train", "val"):
        net.train(phase == "train")
        for _ in range(10):
            with torch.set_grad_enabled(phase == "train"):
                loss = net(torch.randn(4, 8).cuda()).sum()
            if phase == "train":
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
""",
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
net.eval()
def evaluate():
    was = net.training
    net.eval()
    with torch.no_grad():
        net(torch.randn(4, 8).cuda())
    net.train(was)
for epoch in range(5):
    for _ in range(10):
        optimizer.zero_grad()
        net(torch.randn(4, 8).cuda()).sum().backward()
        optimizer.step()
    evaluate()
net.eval()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Look for what a loop left behind, and for training calls that fell asleep."""
    told: set[int] = set()
    for item in run.seen("left in eval mode"):
        number = item.data["number"]
        if number not in told and not _woken(run, number, item.order):
            told.add(number)
            yield _report(run, item.line, item, "the next round of this loop trains it so", item.data["trained"])
    for asleep in _fallen_asleep(run):
        number = asleep.data["number"]
        eval_at = [m for m in run.seen("mode") if not m.data["training"] and m.order < asleep.order]
        if number not in told and eval_at:
            told.add(number)
            words = f"step {asleep.step + 1} trains it so"
            yield _report(run, eval_at[-1].line, asleep, words, asleep.line)


def _report(run: Run, line: str, item: Observation, then: str, trained: str) -> Finding:
    count = item.data["modal"]
    return run.finding(
        RULE,
        line,
        f"{item.data['kind']} is put into eval mode here and never back into train mode: {then}, with {count} "
        f"layer{'s' if count > 1 else ''} of dropout or batch norm off",
        evidence=[
            seen("layers that depend on the mode", count),
            seen("of them in train mode afterwards", 0),
        ],
        fix=Fix(
            title="return to train mode",
            instruction="call train() on the model at the start of each round, or after the evaluation",
            expected="dropout and batch norm work as in the first round",
        ),
        related=[(trained, "the model is trained here, in the same loop")],
        confidence="certain",
    )


def _calls(run: Run, number: int) -> list[Observation]:
    return [i for i in run.seen("network called") if i.data["number"] == number and i.data["optimized"]]


def _woken(run: Run, number: int, order: int) -> bool:
    """Whether it was trained in train mode after all."""
    return any(
        i.order > order and i.data["graph"] and i.data["dropouts"] + i.data["norms"] for i in _calls(run, number)
    )


def _fallen_asleep(run: Run) -> Iterator[Observation]:
    """The first training call in eval mode of a network whose calls at the same line began in train mode."""
    for number in sorted({i.data["number"] for i in run.seen("network called")}):
        lines: dict[str, list[Observation]] = {}
        for item in _calls(run, number):
            if item.data["graph"]:
                lines.setdefault(item.line, []).append(item)
        for items in lines.values():
            awake = [bool(i.data["dropouts"] + i.data["norms"]) for i in items]
            if awake[0] and not awake[-1] and awake == sorted(awake, reverse=True):
                first = items[awake.index(False)]
                if any(b.order > first.order for b in run.seen("backward")) and first.step > items[0].step:
                    yield first


def disproves(run: Run, finding: Finding) -> bool:
    """Whether the network was seen to train in train mode again after the eval at this place."""
    switched = [m for m in run.seen_at(finding.location, "mode") if not m.data["training"]]
    return bool(switched) and any(
        i.order > switched[0].order
        and i.data["training"]
        and i.data["graph"]
        and i.data["kind"] == switched[0].data["kind"]
        for i in run.seen("network called")
        if i.data["optimized"] and i.data["dropouts"] + i.data["norms"]
    )
