"""The loss or a gradient is not a number within the first steps.

## What it does
Runs the script's own first steps on the CPU with real numbers, in fp32, and looks at the value with which each backward pass begins and at the gradients that each optimizer step uses.
Where a NaN appears in a forward pass, the first function that gave one is named.

## Why
After one step with such a gradient every parameter is NaN, and no later step brings it back.
Common causes are a logarithm or a root at 0, a division by a count that can be 0, a soft-max over a row of which everything is masked, a mean over no targets, weights that were never initialised, and a learning rate that is far too high.

## Fix
Keep the argument away from where the function has no value: `clamp`, `eps` inside the root, `where` on both the input and the result.
Where a parameter is made by `torch.empty`, initialise it.

## When to ignore
When data stood in for your own and your own cannot hold such values; the finding is then a possible one.

## References
- PyTorch documentation, "Autograd mechanics", and torch.autograd.detect_anomaly
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.probed import probe_of, setting, sure
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.probe import Probe

RULE = Rule(
    name="loss-not-finite",
    code="NUM017",
    severity="error",
    confidence="likely",
    layer="V",
    tags=("numerics", "loss", "dry-run", "probe"),
)

BAD = (
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(8, 16), nn.Linear(16, 4)
    def forward(self, x):
        h = torch.relu(self.body(x))
        h = h / h.norm(dim=-1, keepdim=True)
        return self.head(torch.log(h - h.min()))
net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(10):
    loss = nn.functional.cross_entropy(net(torch.randn(4, 8).cuda()), torch.randint(0, 4, (4,)).cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    """
import torch
net = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.Adam(net.parameters())
for step in range(10):
    x = torch.randn(4, 8, device="cuda")
    y = net(x)
    distance = ((y[:, None] - y[None]) ** 2).sum(-1).sqrt()
    loss = distance.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.head = nn.Linear(16, 48), nn.Linear(16, 3)
    def forward(self, x, lengths):
        q, k, v = self.qkv(x).chunk(3, -1)
        mask = torch.arange(x.size(1), device=x.device)[None] < lengths[:, None]
        weights = (q @ k.transpose(1, 2)).masked_fill(~mask[:, None], float("-inf")).softmax(-1)
        return self.head((weights @ v).mean(1))
model = Attention().to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(10):
    lengths = torch.tensor([0, 3, 5, 6], device="cuda")
    out = model(torch.randn(4, 6, 16, device="cuda"), lengths)
    loss = (out - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
net = nn.Linear(8, 8).cuda()
optimizer = torch.optim.Adam(net.parameters())
for step in range(10):
    y = net(torch.randn(4, 8, device="cuda"))
    distance = ((y[:, None] - y[None]) ** 2).sum(-1).add(1e-6).sqrt()
    scores = (y @ y.T).masked_fill(torch.ones(4, 4, device="cuda").triu(1).bool(), float("-inf"))
    loss = distance.mean() + scores.softmax(-1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    """
import torch
net = torch.nn.Linear(8, 8).cuda()
scaler = torch.amp.GradScaler("cuda")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(10):
    with torch.autocast("cuda", dtype=torch.float16):
        y = net(torch.randn(4, 8, device="cuda"))
        unknown = torch.full_like(y, float("nan"))
        loss = torch.where(y > 100, unknown, y).float().square().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find the first value of a loss, or of gradients, that is not finite."""
    probe = probe_of(run)
    if probe is None or probe.broken is None:
        return
    broken, without = probe.broken, _no_targets(probe)
    if without and any("tokens cut" in line for line in probe.changed):
        return  # what was cut off to make the run small held the targets
    origin = broken.origin
    where = f" in {origin.module}" if origin is not None and origin.module else ""
    first = f"; it comes from {origin.function}{where}" if origin is not None else ""
    of = f" of {', '.join(broken.parameters[:3])}" if broken.parameters else ""
    yield run.finding(
        RULE,
        origin.line if origin is not None and origin.line else broken.line,
        f"{broken.what}{of} {'are' if broken.parameters else 'is'} {broken.value} in optimizer step {broken.step + 1}"
        + ("; every target of a loss is one that it ignores" if without else first),
        evidence=[
            seen("value", broken.value),
            seen("optimizer steps before", broken.step),
            setting(probe),
        ],
        related=[(broken.line, f"{broken.what} {'are' if broken.parameters else 'is'} used here")],
        fix=Fix(
            title="keep the argument away from where the function or its derivative has no value",
            instruction="clamp it, add an eps inside, or leave the rows out for which it is not defined",
            expected="loss and gradients stay finite",
        ),
        confidence=sure(probe),
    )


def _no_targets(probe: Probe) -> bool:
    assert probe.broken is not None
    return any(loss.step == probe.broken.step and loss.counted == 0 for loss in probe.losses)
