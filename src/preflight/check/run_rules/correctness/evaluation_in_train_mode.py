"""Sees a trained network called without gradients, after training, while dropout or batch norm works as in training."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.evaluation_in_train_mode import RULE
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.seen import Observation

BAD = (
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 2)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.randn(64, 8))
loaders = {k: torch.utils.data.DataLoader(data, batch_size=8) for k in ("train", "test")}
def run(phase):
    for (x,) in loaders[phase]:
        with torch.set_grad_enabled(phase == "train"):
            loss = net(x.cuda()).sum()
        if phase == "train":
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
for epoch in range(3):
    for phase in loaders:
        run(phase)
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
    def forward(self, x):
        return self.norm(self.conv(x)).mean((2, 3))
@torch.inference_mode()
def score(net, batches):
    return [net(x.cuda()).argmax(1) for x in batches]
def main():
    net = Net().cuda()
    optimizer = torch.optim.Adam(net.parameters())
    batches = torch.utils.data.DataLoader(torch.randn(32, 3, 8, 8), batch_size=4)
    for epoch in range(2):
        for x in batches:
            optimizer.zero_grad()
            net(x.cuda()).sum().backward()
            optimizer.step()
        score(net, batches)
main()
""",
    """
import torch
from torch import nn
encoder = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.3)).cuda()
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
class Evaluator:
    def __init__(self, net):
        self.net = net
    def __call__(self, x):
        with torch.no_grad():
            return self.net(x).norm()
check = Evaluator(encoder)
data = torch.randn(10, 4, 8)
for epoch in range(2):
    for x in data[:8]:
        optimizer.zero_grad()
        encoder(x.cuda()).sum().backward()
        optimizer.step()
    for x in data[8:]:
        check(x.cuda())
""",
)

GOOD = (
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 2)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def noisy(x):
    net.eval()
    net[1].train()
    with torch.no_grad():
        return torch.stack([net(x) for _ in range(10)])
for epoch in range(3):
    for _ in range(5):
        x = torch.randn(4, 8).cuda()
        with torch.no_grad():
            before = net(x)
        optimizer.zero_grad()
        nn.functional.mse_loss(net(x), before).backward()
        optimizer.step()
    noisy(torch.randn(4, 8).cuda())
    net.train()
""",
    """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 2)).cuda()
G = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
other = torch.optim.SGD(G.parameters(), lr=0.1)
for step in range(9):
    optimizer.zero_grad()
    x = G(torch.randn(4, 4, device="cuda"))
    checkpoint(net, x, use_reentrant=True).sum().backward()
    optimizer.step()
    other.step()
    if step % 5 == 2:
        with torch.no_grad():
            G(torch.randn(4, 4, device="cuda"))
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Look for calls of trained networks, after training, that are part of no training step."""
    if not run.complete or _several(run):
        return
    told: set[int] = set()
    for line in dict.fromkeys(i.line for i in run.seen("network called")):
        items = [i for i in run.seen("network called") if i.line == line and i.data["optimized"]]
        plain = [i for i in items if not i.data["graph"]]
        if (
            not plain
            or any(i.step == 0 for i in plain)
            or any(i.data["graph"] and i.step in _steps(plain) for i in items)
        ):
            continue
        first = plain[0]
        # Calls in several steps are part of them: a target, a first pass, an action.
        awake = all(i.data["training"] and i.data["dropouts"] + i.data["norms"] for i in plain)
        if len(_steps(plain)) > 1 or not awake or first.data["number"] in told or "update_bn" in run.text(line):
            continue
        told.add(first.data["number"])
        yield _report(run, first, sum(i.count for i in plain))


def _steps(items: list[Observation]) -> set[int]:
    return {i.step for i in items}


def _several(run: Run) -> bool:
    """Whether networks train against each other: there, noise and statistics of the batch may be meant."""
    return sum(o.steps > 0 for o in run.optimizers) > 1


def _report(run: Run, item: Observation, calls: int) -> Finding:
    dropouts, norms = item.data["dropouts"], item.data["norms"]
    layers = [f"{n} {what}" for n, what in ((dropouts, "of dropout"), (norms, "of batch norm")) if n]
    does = "drops activations" if dropouts else "normalises with the statistics of each test batch and learns them"
    return run.finding(
        RULE,
        item.line,
        f"{item.data['kind']} is evaluated in train mode: its {' and '.join(layers)} work as in training, which {does}",
        evidence=[
            seen("calls without gradients after training", calls),
            seen("optimizer steps before", item.step),
            seen("layers of dropout in train mode", dropouts),
            seen("layers of batch norm in train mode", norms),
        ],
        fix=Fix(
            title="evaluate in eval mode",
            instruction="call eval() on the model before the evaluation and train() after it",
            expected="the result of an evaluation depends on the model and the data alone",
        ),
    )


def disproves(run: Run, finding: Finding) -> bool:
    """Whether every call at this place without a graph was seen to be in eval mode."""
    calls = run.seen_at(finding.location, "network called")
    return bool(calls) and all(not i.data["dropouts"] + i.data["norms"] and not i.data["training"] for i in calls)
