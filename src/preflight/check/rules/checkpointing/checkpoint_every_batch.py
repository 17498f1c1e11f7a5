"""A checkpoint is written for every batch.

## What it does
Looks for a save in the loop over batches that happens in each of its passes.

## Why
Writing a checkpoint takes longer than a step: 3 GB (250 million parameters with AdamW, 12 bytes each) take 3 s at 1 GB/s, and the steps wait.
The GPU waits all the time, and the disk fills with files that nobody reads.

## Fix
Save once per epoch, or every thousand steps.

## When to ignore
When one pass of the loop is minutes of work.

## References
- PyTorch, "Saving and loading a general checkpoint for inference and/or resuming training"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.counts import over_data
from preflight.check.queries.steps import each_pass, inner_loops
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="checkpoint-every-batch",
    code="CKP012",
    severity="warning",
    confidence="likely",
    needs=("training_loop",),
    tags=("checkpoint", "speed"),
)
_SAVES = (
    "torch.save",
    "safetensors.torch.save_file",
    "safetensors.torch.save_model",
    ".save_pretrained",
    ".save_state",
    ".save_checkpoint",
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(10):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.save(model.state_dict(), "last.pt")
""",
    """
import argparse
from torch import nn, save as write
from torch.optim import SGD
parser = argparse.ArgumentParser()
parser.add_argument("--out", default="last.pt")
args = parser.parse_args()
class Trainer:
    def __init__(self):
        self.net = nn.Linear(10, 2)
        self.opt = SGD(self.net.parameters(), lr=0.1)
    def keep(self):
        write({"net": self.net.state_dict()}, args.out)
    def epoch(self):
        for x, y in loader:
            self.opt.zero_grad()
            nn.functional.cross_entropy(self.net(x), y).backward()
            self.opt.step()
            self.keep()
trainer = Trainer()
for _ in range(3):
    trainer.epoch()
""",
    """
import torch
from transformers import AutoModelForCausalLM as Auto
model = Auto.from_pretrained("gpt2")
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(3):
    for step, batch in enumerate(loader):
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        model.save_pretrained(f"out/{step}")
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(10):
    for step, (x, y) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 1000 == 0:
            torch.save(model.state_dict(), "last.pt")
    torch.save(model.state_dict(), "epoch.pt")
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.LBFGS(model.parameters())
for epoch in range(10):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(data), target)
    loss.backward()
    optimizer.step(lambda: loss)
    torch.save(model.state_dict(), "last.pt")
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find saves in each pass of a loop over data."""
    saves = context.trace.calls(*_SAVES)
    for loop in context.reading.loops:
        if loop.frame.shadow or not loop.steps or not over_data(context, loop.frame) or not loop.outer:
            continue
        for event in saves:
            if not event.context.within(loop.frame) or inner_loops(event.context, loop.frame):
                continue
            if each_pass(event.context, loop.frame):
                yield context.finding(
                    RULE,
                    event,
                    "a checkpoint is written after every batch: writing takes longer than the step, and the GPU waits",
                    evidence=[Evidence("saves per training step", 1, arithmetic="no test decides that it happens")],
                    fix=Fix(
                        title="save once per epoch",
                        instruction="move the save out of the loop over batches, or guard it: if step % 1000 == 0",
                        expected="the time per step is that of the step",
                    ),
                    related=[(loop.backwards[0], "the training step")],
                )
                break
