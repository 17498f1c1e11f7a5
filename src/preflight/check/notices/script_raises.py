"""The script ends with an exception in a dry run.

## What it does
Reports the exception with which a script ended when it ran on the virtual GPU, and the frames of its own code.

## Why
What raises on fake tensors raises on real ones: the shapes, types and devices are the same.
Exceptions that hang on numbers, files or packages that are missing here may not appear on the machine that trains.

## Fix
Read the message and the statement it points to.
Where data or a package is missing only here, run the check where it is there.

## When to ignore
When the message names a file, a package or a service that exists only where the run will be.

## References
- PyTorch documentation, fake tensors
"""

from __future__ import annotations

from preflight.check.rule import Rule

RULE = Rule(name="script-raises", code="RUN001", severity="error", confidence="possible", layer="V", tags=("dry-run",))

BAD = (
    """
import torch
model = torch.nn.Sequential(torch.nn.Linear(784, 64), torch.nn.Linear(64, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=-0.9)
model(torch.randn(8, 784, device="cuda")).square().mean().backward()
optimizer.step()
""",
    """
import torch
def train(model, x):
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1)
    model(x).sum().backward()
train(torch.nn.Linear(4, 2).to("cuda"), torch.randn(3, 4).cuda())
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--classes", type=int, default=10)
args = parser.parse_args()
model = torch.nn.Linear(16, args.classes).cuda()
options = {"attention_mask": None}
loss = model(torch.randn(4, 16).cuda(), **options).sum()
""",
)

GOOD = (
    """
import torch
model = torch.nn.Sequential(torch.nn.Linear(784, 64), torch.nn.Linear(64, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(100):
    loss = model(torch.randn(8, 784, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
)
