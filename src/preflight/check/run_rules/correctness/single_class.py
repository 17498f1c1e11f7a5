"""Sees cross entropy, or a soft-max over the outputs of a layer, with a single class."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.origins import first_of_each, origin
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.single_class import RULE
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.seen import Observation

BAD = (
    """
import torch
from torch import nn
labels = ["cat"]
net = nn.Linear(8, len(labels)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    nn.CrossEntropyLoss()(net(torch.randn(4, 8).cuda()), torch.zeros(4, dtype=torch.long).cuda()).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, out):
        super().__init__()
        self.fc = nn.Linear(8, out)
        self.act = nn.Softmax(dim=-1)
    def forward(self, x):
        return self.act(self.fc(x))
net = Net(sum([1])).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    nn.BCELoss()(net(torch.randn(4, 8).cuda()), torch.ones(4, 1).cuda()).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
net = nn.Conv2d(3, 1, 1).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    out, y = net(torch.randn(2, 3, 4, 4).cuda()), torch.zeros(2, 4, 4, dtype=torch.long).cuda()
    getattr(nn.functional, "cross_entropy")(out, y).backward()
    optimizer.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
net = nn.Linear(8, 3).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    out = net(torch.randn(4, 8).cuda())
    weights = (out[:, None] @ out[:, :, None]).softmax(-1)
    nn.functional.cross_entropy(out * weights[:, 0], torch.zeros(4, dtype=torch.long).cuda()).backward()
    optimizer.step()
""",
)

_DENSE = frozenset("addmm mm linear convolution".split())


def observe(run: Run) -> Iterator[Finding]:
    """Look for one class in each loss, and for one number in each soft-max over what a layer gave."""
    losses = [
        i for i in run.seen("nll_loss") if i.data["graph"] and i.data["classes"] == 1 and len(i.data["shape"]) > 1
    ]
    soft = [i for i in run.seen("softmax") if i.data["graph"] and _alone(i)]
    for item in first_of_each([*losses, *soft]):
        loss = item.what == "nll_loss"
        shape = tuple(item.data["shape"])
        yield run.finding(
            RULE,
            item.line,
            f"{'this loss' if loss else 'this soft-max'} sees a single class in {shape}: "
            f"{'it is always 0' if loss else 'its result is always 1'} and every gradient is zero",
            evidence=[seen("classes", 1), seen("shape", str(shape))],
            fix=Fix(
                title="use a loss for one output",
                instruction="use BCEWithLogitsLoss with one output, or as many outputs as there are classes",
                expected="the loss depends on the output",
            ),
            confidence="certain",
        )


def _alone(item: Observation) -> bool:
    """Whether a soft-max goes over the single output of a layer, not over positions that happen to be one."""
    shape, dim = item.data["shape"], item.data["dim"]
    of_layer = dim == 1 if origin(item)[0] == "convolution" else dim == len(shape) - 1
    return len(shape) > 1 and shape[dim] == 1 and of_layer and origin(item)[0] in _DENSE


def disproves(run: Run, finding: Finding) -> bool:
    """Whether the loss or soft-max at this place was seen to go over several classes."""
    found = run.seen_at(finding.location, "nll_loss", "softmax", "log_softmax")
    return bool(found) and all(
        i.data["classes"] > 1 if i.what == "nll_loss" else i.data["shape"][i.data["dim"]] > 1 for i in found
    )
