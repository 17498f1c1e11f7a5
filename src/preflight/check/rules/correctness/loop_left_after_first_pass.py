"""The loop over batches is left after its first batch.

## What it does
Looks for a `break` that nothing guards at the end of a training loop over a loader.

## Why
Such a line is put there to try a script out, and forgotten: every epoch trains on one batch.

## Fix
Remove the `break`, or guard it with an option.

## When to ignore
When the script is a trial, or learns one batch by heart on purpose.

## References
- PyTorch tutorials, "Optimizing Model Parameters"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.counts import over_loader
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="loop-left-after-first-pass",
    code="DAT021",
    severity="warning",
    confidence="likely",
    needs=("training_loop",),
    layer="D",
    tags=("data",),
)

BAD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    for x, y in DataLoader(dataset, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        break
""",
    """
import torch
from torch.utils.data import DataLoader
class Trainer:
    def __init__(self, net, loader):
        self.net, self.loader = net, loader
        self.opt = torch.optim.AdamW(net.parameters())
    def epoch(self):
        for step, x in enumerate(self.loader):
            self.opt.zero_grad()
            self.net(x).mean().backward()
            self.opt.step()
            print(step)
            break
trainer = Trainer(torch.nn.Linear(4, 4), DataLoader(rows, batch_size=4))
for _ in range(5):
    trainer.epoch()
""",
    """
import torch
from torch.utils.data import DataLoader
net = torch.nn.Linear(8, 2)
opt = torch.optim.Adam(net.parameters())
loader = DataLoader(rows, batch_size=4)
for x in loader:
    loss = net(x).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    break
""",
)

GOOD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(DataLoader(dataset, batch_size=8, shuffle=True)):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    if i == 100:
        break
""",
    """
import torch
net = torch.nn.Linear(8, 2)
opt = torch.optim.Adam(net.parameters())
while True:
    opt.zero_grad()
    net(batch()).sum().backward()
    opt.step()
    break
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look at the last statement of each training loop over a loader."""
    for loop in context.reading.loops:
        node = loop.frame.node
        if not isinstance(node, ast.For) or not isinstance(node.body[-1], ast.Break) or loop.frame.shadow:
            continue
        if not over_loader(context, loop.frame):
            continue
        yield context.finding(
            RULE,
            (loop.backwards[0].script, node.body[-1]),
            "the loop over batches ends after its first batch: of each epoch one batch is trained on",
            evidence=[Evidence("batches of an epoch that are trained on", 1)],
            fix=Fix(
                title="remove the break",
                safe=False,
                instruction="leave the line out, or guard it with an option",
                expected="every batch is trained on",
            ),
        )
