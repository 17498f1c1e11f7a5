"""Sees dropout that runs while the network is in evaluation mode, and results that differ for it."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.probed import probe_of, setting
from preflight.check.rules.correctness.functional_dropout_always_on import RULE
from preflight.check.run import Run, seen
from preflight.vocabulary.finding import Finding

_LOOP = """
optimizer = torch.optim.Adam(net.parameters())
for step in range(10):
    loss = nn.functional.cross_entropy(net(torch.randn(8, 6, 16).cuda()), torch.randint(0, 4, (8,)).cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

BAD = (
    f"""
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 4)
    def forward(self, x):
        x = nn.functional.dropout(x, 0.3)
        return self.head(x.mean(1))
net = Net().cuda()
{_LOOP}""",
    f"""
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, dropout=0.1):
        super().__init__()
        self.dropout, self.qkv, self.head = dropout, nn.Linear(16, 48), nn.Linear(16, 4)
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        h = nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)
        return self.head(h.mean(1))
net = Net().to("cuda")
{_LOOP}""",
    f"""
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.drops = [nn.Dropout(0.5), nn.Dropout(0.2)]
        self.body, self.head = nn.Linear(16, 16), nn.Linear(16, 4)
    def forward(self, x):
        for drop in self.drops:
            x = drop(x)
        return self.head(torch.relu(self.body(x)).mean(1))
net = Net().cuda()
{_LOOP}""",
)

GOOD = (
    f"""
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop, self.qkv, self.head = nn.Dropout(0.5), nn.Linear(16, 48), nn.Linear(16, 4)
    def forward(self, x):
        x = nn.functional.dropout(self.drop(x), 0.3, self.training)
        q, k, v = self.qkv(x).chunk(3, -1)
        h = nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.1 if self.training else 0.0)
        return self.head(h.mean(1))
net = Net().cuda()
{_LOOP}""",
    """
import torch
from torch import nn
class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.back = nn.Linear(16, 4), nn.Linear(4, 16)
    def forward(self, x):
        z = self.mean(x)
        return self.back(z + torch.randn_like(z))
net = Coder().cuda()
optimizer = torch.optim.Adam(net.parameters())
for step in range(10):
    x = torch.randn(8, 16).cuda()
    loss = nn.functional.mse_loss(net(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find dropout that runs in evaluation mode."""
    probe = probe_of(run)
    for model in probe.models if probe is not None else ():
        evaluation = model.evaluation
        if evaluation is None or evaluation.same:
            continue
        for drawn in evaluation.drawn:
            if not drawn.share:
                continue
            assert probe is not None
            yield run.finding(
                RULE,
                drawn.line or model.line,
                f"{drawn.function}() drops {100 * drawn.share:.3g} % here although {model.name} is in evaluation mode: "
                "two evaluations of the same input differ",
                evidence=[seen("probability in evaluation mode", drawn.share), setting(probe)],
                fix=Fix(
                    title="switch dropout off in evaluation",
                    instruction="pass training=self.training, or 0.0 where the module is not in training mode; "
                    "keep nn.Dropout in an attribute or a ModuleList, so that eval() reaches it",
                    expected="evaluation gives the same for the same input",
                ),
            )
