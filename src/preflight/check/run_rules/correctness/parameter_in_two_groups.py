"""Sees the error of an optimizer whose groups share parameters."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.parameter_in_two_groups import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True


BAD = (
    """
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)).cuda()
def groups(model):
    named = dict(model.named_parameters())
    yield {"params": [p for name, p in named.items() if "weight" in name]}
    yield {"params": [p for name, p in named.items() if name.startswith("1.")], "lr": 0.01}
opt = torch.optim.SGD(groups(net), lr=0.1)
""",
    """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(16, 8), torch.nn.Linear(8, 16, bias=False)
        self.head.weight = self.embed.weight
net = Net().cuda()
opt = torch.optim.AdamW([{"params": part.parameters()} for part in net.children()])
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.Adam(net.parameters())
def unfreeze(optimizer, parameters):
    for p in parameters:
        optimizer.add_param_group({"params": [p]})
unfreeze(opt, net.parameters())
""",
)

GOOD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.Adam([{"params": [net.weight]}, {"params": [net.bias], "weight_decay": 0.0}])
for _ in range(4):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    opt.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Explain the exception."""
    if not run.raised("some parameters appear in more than one parameter group"):
        return
    yield run.finding(
        RULE,
        run.raised_at,
        "parameters are in two groups of the optimizer, which refuses them",
        evidence=[seen("error", run.profile.message or "")],
        fix=Fix(
            title="leave each parameter in one group",
            instruction="build the groups so that each parameter is in one of them; tied weights are one parameter",
            expected="the optimizer is made",
        ),
        confidence="certain",
    )
