"""Memory grows with every step until it runs out.

## What it does
Where each step keeps the graph of its forward pass, multiplies what is kept by the number of steps, and tells the step at which the GPU is full.

## Why
The run starts well and fails after minutes or hours with `CUDA out of memory`, at a place in the code that is not to blame.
With 2 GiB kept per step, a GPU with 20 GiB left dies at step 10.

## Fix
Detach what is kept: collect `loss.item()` or `output.detach()`, and detach recurrent state between steps.

## When to ignore
When the kept values are freed by code that cannot be followed.

## References
- PyTorch documentation, "My model reports CUDA out of memory" (FAQ)
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.memory_limits import place_of_model
from preflight.check.rule import Example, Rule
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.quantity import format_bytes

RULE = Rule(
    name="growth-exceeds-device",
    code="MEM026",
    severity="error",
    confidence="likely",
    needs=("capacity", "memory"),
    layer="D",
    tags=("memory",),
)

_HEAD = """
import argparse
import torch
import torch.nn as nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
from torchvision.models import resnet50
model = resnet50().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
data = datasets.ImageFolder("train", transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()]))
loader = DataLoader(data, batch_size=32, shuffle=True, num_workers=8)
"""

BAD = (
    Example(
        _HEAD
        + """
kept = []
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
    kept.append(model(x.cuda()))
""",
        gpu="a100",
    ),
    Example(
        _HEAD
        + """
class Trainer:
    def __init__(self):
        self.outputs = []
    def remember(self, x):
        out = model(x)
        self.outputs.append(out)
    def step(self, x, y):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        self.remember(x)
trainer = Trainer()
for epoch in range(10):
    for x, y in loader:
        trainer.step(x.cuda(), y.cuda())
""",
        gpu="v100",
    ),
    Example(
        _HEAD
        + """
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
history = []
def losses(batch):
    images, labels = batch
    return nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
for epoch in range(parser.parse_args().epochs):
    for batch in loader:
        loss = losses(batch)
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        history.append(loss)
""",
        gpu="rtx4090",
    ),
)

GOOD = (
    Example(
        _HEAD
        + """
kept = []
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
    kept.append(loss.item())
""",
        gpu="a100",
    ),
    Example(
        _HEAD
        + """
history = []
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
    history.append(loss)
""",
        gpu="a100",
    ),
)


def check(context: Context) -> Iterator[Finding]:
    """Find runs that a growth ends."""
    memory = context.memory
    if memory is None or memory.oom is None or memory.oom.phase != "growth" or memory.method == "dry-run":
        return
    kept = context.run.kept_bytes_per_step
    yield context.finding(
        RULE,
        place_of_model(context),
        f"memory grows by about {format_bytes(kept)} with every step, because graphs are kept: it runs out at about step {memory.oom.step}",
        evidence=[
            Evidence("kept per step", round(kept), "bytes", "derived", "the activations of one forward pass"),
            Evidence("step at which the GPU is full", memory.oom.step, "steps", "derived", memory.oom.arithmetic),
        ],
        fix=Fix(
            title="keep numbers or detached tensors instead of tensors with their graph",
            instruction="see the findings that name the place where the graph is kept",
            expected="the memory stays the same from step to step",
        ),
    )
