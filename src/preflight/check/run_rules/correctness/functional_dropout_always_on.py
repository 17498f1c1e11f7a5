"""Sees dropout that runs while the network is in evaluation mode, and results that differ for it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.origins import first_of_each
from preflight.check.observed.probed import probe_of, setting
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.functional_dropout_always_on import RULE
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
    """
import torch
from torch import nn
from functools import partial
drop = partial(nn.functional.dropout, p=0.3)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.out = nn.Linear(8, 8), nn.Linear(8, 2)
    def forward(self, x):
        return self.out(drop(self.fc(x)))
net = Net().cuda().eval()
with torch.no_grad():
    net(torch.randn(4, 8).cuda())
""",
    """
import torch
from torch import nn
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.rate = nn.Linear(16, 48), 0.1
    def forward(self, x):
        q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=self.rate)
net = Attention().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    net(torch.randn(2, 4, 16).cuda()).sum().backward()
    optimizer.step()
net.eval()
net(torch.randn(2, 4, 16).cuda())
""",
    """
import torch
from torch import nn
def block(x, layer, **options):
    return torch.dropout(layer(x), options.get("p", 0.5), options.get("train", 1) > 0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
    def forward(self, x):
        return block(x, self.fc)
net = Net().cuda()
net.train(False)
net(torch.randn(4, 8, device="cuda"))
""",
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
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.drop = nn.Linear(8, 8), nn.Dropout(0.1)
        self.mc = nn.Dropout(0.2)
    def forward(self, x):
        x = nn.functional.dropout(self.drop(self.fc(x)), 0.5, self.training)
        return nn.functional.dropout(self.mc(x), 0.5, training=True)
net = Net().cuda().eval()
net.mc.train()
with torch.no_grad():
    net(torch.randn(4, 8).cuda())
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find dropout that runs in evaluation mode: in the script's own evaluation, or in that of the probe."""
    yield from _at_work(run)
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


def _at_work(run: Run) -> Iterator[Finding]:
    """Dropout at work while every module around it is in eval mode, where nothing says that it is meant."""
    for item in first_of_each(run.seen("dropout in eval mode")):
        if re.search(r"dropout.*\bTrue\b", run.text(item.line)):
            continue  # said so: Monte-Carlo dropout, the pre-net of Tacotron
        rate, kernel = item.data["rate"], "attention" in item.data["operator"]
        yield run.finding(
            RULE,
            item.line,
            f"dropout of {rate:.0%} is on although {item.data['kind']} is in eval mode: every evaluation drops activations "
            "and gives another result",
            evidence=[
                seen("rate", rate),
                seen("modules around it in train mode", 0),
                seen("calls", item.count),
            ],
            fix=Fix(
                title="follow the mode of the model",
                instruction="pass dropout_p=rate if self.training else 0.0"
                if kernel
                else "pass training=self.training",
                expected="evaluation gives the same result each time",
            ),
            confidence="certain",
        )
