"""The loss of the first step is far above that of guessing.

## What it does
Compares the cross entropy of the first step, computed with real numbers on the CPU, with ln C, the loss of a network that gives all C classes the same probability.
It speaks from twice ln C + 2 on, and only of weights that the script itself draws.

## Why
At the start a network knows nothing, and the best it can do is to say so: a loss near ln C.
One that is far higher is certain of wrong classes, because its last layers give numbers that are far too large: weights of standard deviation 1, an embedding that is used as the output layer as well, inputs that are not normalised.
Training then begins with a long stretch in which only the scale is unlearned, gradients are large or, behind a saturated function, zero, and a clip or an overflow in half precision decides what happens.

## Fix
Draw the weights smaller: standard deviation 0.02, or 1 / sqrt(fan-in).
Scale the result of a tied embedding, and normalise the inputs.

## When to ignore
When the weights are loaded by code of your own that a dry run cannot follow, or when the logits are scaled on purpose, as the cosines of a margin loss (ArcFace multiplies them by 64).

## References
- Karpathy, "A Recipe for Training Neural Networks" (2019): "verify loss @ init"
- Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks" (2010)
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.probed import from_scratch, invented, probe_of, setting
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="initial-loss-too-large",
    code="NUM018",
    severity="warning",
    confidence="likely",
    layer="V",
    tags=("numerics", "initialisation", "dry-run", "probe"),
)

BAD = (
    """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(200, 128)
        self.mix = nn.GRU(128, 128, batch_first=True)
        self.norm, self.head = nn.LayerNorm(128), nn.Linear(128, 200, bias=False)
        self.head.weight = self.embed.weight
    def forward(self, x):
        return self.head(self.norm(self.mix(self.embed(x))[0]))
model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(100):
    ids = torch.randint(0, 200, (4, 17)).cuda()
    loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    """
import torch
import torch.nn.functional as F
first = torch.randn(30, 100, device="cuda", requires_grad=True)
second = torch.randn(100, 27, device="cuda", requires_grad=True)
optimizer = torch.optim.SGD([first, second], lr=0.1)
for step in range(100):
    x, y = torch.randn(32, 30).cuda(), torch.randint(0, 27, (32,)).cuda()
    loss = F.cross_entropy(torch.tanh(x @ first) @ second, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 14 * 14, 10))
for part in net:
    if isinstance(part, (nn.Conv2d, nn.Linear)):
        nn.init.normal_(part.weight)
net.to("cuda")
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(net.parameters())
for step in range(100):
    loss = criterion(net(torch.randn(8, 3, 16, 16).cuda()), torch.randint(0, 10, (8,)).cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 14 * 14, 10)).cuda()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(net.parameters())
for step in range(100):
    loss = criterion(net(torch.randn(8, 3, 16, 16).cuda()), torch.randint(0, 10, (8,)).cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
net = nn.Linear(30, 5).cuda()
criterion = nn.CrossEntropyLoss(reduction="sum")
optimizer = torch.optim.Adam(net.parameters())
for step in range(100):
    loss = criterion(net(torch.randn(64, 30).cuda()), torch.randint(0, 5, (64,)).cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find losses of the first step that are more than twice those of guessing."""
    probe = probe_of(run)
    if probe is None or not from_scratch(probe):
        return
    told: set[str] = set()
    for loss in probe.losses:
        if loss.step or not loss.mean or loss.weighted or loss.classes < 2 or loss.value is None or loss.line in told:
            continue
        guess = math.log(loss.classes)
        if loss.counted < 4 or loss.value < 2 * guess + 2:
            continue
        told.add(loss.line)
        yield run.finding(
            RULE,
            loss.line,
            f"the first loss is {loss.value:.1f}, where guessing among {loss.classes} classes has {guess:.1f}: "
            "the predictions start out far too large",
            evidence=[
                seen("first loss", round(loss.value, 3)),
                seen(f"ln {loss.classes}", round(guess, 3)),
                setting(probe),
            ],
            fix=Fix(
                title="draw the weights of the last layers smaller, or normalise what goes in",
                instruction="a standard deviation of 0.02, or of 1 / sqrt(inputs), gives a first loss near ln C",
                expected="training does not begin with unlearning the scale",
            ),
            confidence="possible" if invented(probe) else None,
        )
