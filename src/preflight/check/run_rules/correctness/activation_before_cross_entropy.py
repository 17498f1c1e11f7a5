"""Sees an activation between the last layer and a loss on logits."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.origins import LAYERS, origin
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.activation_before_cross_entropy import RULE
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.seen import Observation

BAD = (
    """
import torch
from torch import nn
net = nn.Sequential(*[part for _ in range(2) for part in (nn.Linear(8, 8), nn.ReLU())]).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    nn.CrossEntropyLoss()(net(torch.randn(4, 8).cuda()), torch.zeros(4, dtype=torch.long).cuda()).backward()
    optimizer.step()
""",
    """
import torch
import torch.nn.functional as F
class Net(torch.nn.Module):
    def __init__(self, act="sigmoid"):
        super().__init__()
        self.fc, self.act = torch.nn.Linear(8, 5), getattr(torch, act)
    def forward(self, x):
        return self.act(self.fc(x))
net = Net().cuda()
optimizer = torch.optim.Adam(net.parameters())
for _ in range(4):
    optimizer.zero_grad()
    F.cross_entropy(net(torch.randn(4, 8, device="cuda")), torch.zeros(4, dtype=torch.long, device="cuda")).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.fc = nn.Linear(8, n)
    def forward(self, x):
        return self.fc(x).tanh()
net = nn.Sequential(Block(8), Block(1)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    nn.BCEWithLogitsLoss()(net(torch.randn(4, 8).cuda()).squeeze(1), torch.ones(4).cuda()).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
a, b = nn.Linear(8, 3).cuda(), nn.Linear(8, 3).cuda()
optimizer = torch.optim.SGD([*a.parameters(), *b.parameters()], lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    x, y = torch.randn(4, 8).cuda(), torch.zeros(4, dtype=torch.long).cuda()
    sum(nn.CrossEntropyLoss()(p, y) for p in (a(x), b(x).relu())).backward()
    optimizer.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 5)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    y = torch.zeros(4, dtype=torch.long).cuda()
    out = net(torch.randn(4, 8).cuda())
    (nn.functional.cross_entropy(out, y) + nn.functional.cross_entropy(10 * torch.tanh(out), y)).backward()
    optimizer.step()
""",
)

_WHY = {
    "relu": "logits below zero get no gradient and all count the same",
    "sigmoid": "logits lie within a range of 1",
    "tanh": "logits lie within a range of 2",
}
_ACTIVATIONS = frozenset("relu sigmoid tanh gelu silu elu leaky_relu hardtanh softplus hardsigmoid hardswish".split())


def observe(run: Run) -> Iterator[Finding]:
    """Look for an activation right before each loss on logits, and a layer right before that."""
    entropies = {item.line for item in run.seen("nll_loss") if origin(item)[0] == "_log_softmax"}
    losses = [i for i in run.seen("log_softmax") if i.line in entropies]
    losses += run.seen("binary_cross_entropy_with_logits")
    told: set[str] = set()
    for item in [i for i in losses if i.data["graph"] and _limited(i)]:
        (name, line), (layer, _) = origin(item), origin(item, 1)
        if line in told:
            continue  # the same activation, before the loss of another pass or before one that validates
        told.add(line)
        yield run.finding(
            RULE,
            item.line,
            f"{name} between the last layer and this loss limits the logits: {_WHY.get(name, 'it damps one side of them')}",
            evidence=[seen("operators before the loss", f"{name}, {layer}")],
            fix=Fix(
                title="give the output of the last layer to the loss",
                instruction=f"remove the {name} after the last layer",
                expected="logits can take every value",
            ),
            related=[(line, f"the {name} is here")] if line != item.line else (),
            confidence="certain",
        )


def _limited(item: Observation) -> bool:
    """Whether an activation stands between a layer and the loss; a sigmoid before BCE with logits is another rule's."""
    (name, _), (layer, _) = origin(item), origin(item, 1)
    others = item.what == "binary_cross_entropy_with_logits" and name == "sigmoid"
    return name in _ACTIVATIONS and layer in LAYERS and not others


def disproves(run: Run, finding: Finding) -> bool:
    """Whether the loss at this place was seen to get something else."""
    losses = run.seen_at(finding.location, "log_softmax", "binary_cross_entropy_with_logits")
    return bool(losses) and all(origin(i)[0] not in _ACTIVATIONS | {""} for i in losses)
