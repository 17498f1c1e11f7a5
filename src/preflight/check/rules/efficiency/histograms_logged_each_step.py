"""Histograms are logged in each step.

## What it does
Looks for `add_histogram`, `wandb.Histogram`, images and embeddings written in each pass of a training loop.

## Why
A histogram needs all values of its tensor on the host: for a network of 100 million parameters that is 400 MB copied and sorted into bins per step, and an event file that grows with each of them.

## Fix
Log them every few hundred steps or once per epoch.

## When to ignore
When the network is small and the run is short.

## References
- PyTorch documentation, `torch.utils.tensorboard`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.steps import each_pass, step_loops
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="histograms-logged-each-step",
    code="EFF015",
    severity="info",
    confidence="likely",
    needs=("training_loop",),
    layer="D",
    tags=("logging",),
)

_HEAD = """
import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter()
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, (x, y) in enumerate(data):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
BAD = (
    _HEAD + "    for n, p in model.named_parameters():\n        writer.add_histogram(n, p, step)\n",
    "class Log:\n    def __init__(self, w):\n        self.w = w\n    def grads(self, net, step):\n        self.w.add_histogram('w', net.weight, step)\n"
    + _HEAD
    + "    Log(writer).grads(model, step)\n",
    "import argparse, wandb as wb\nparser = argparse.ArgumentParser()\nparser.add_argument('--log', type=bool, default=True)\nargs = parser.parse_args()\n"
    + _HEAD
    + "    if args.log:\n        wb.log({'w': wb.Histogram(model.weight.detach().cpu())})\n",
    _HEAD + "    writer.add_image('x', x[0], step)\n",
)
GOOD = (
    _HEAD
    + "    if step % 500 == 0:\n        writer.add_histogram('w', model.weight, step)\n    writer.add_scalar('x', 1, step)\n",
    "for epoch in range(3):"
    + "\n    ".join(_HEAD.splitlines())
    + "\n    writer.add_histogram('w', model.weight, epoch)\n",
)

_CALLS = {
    ".add_histogram": "histogram", "wandb.Histogram": "histogram", ".add_embedding": "embedding", ".add_image": "picture", ".add_images": "picture",
    ".add_figure": "figure", "wandb.Image": "picture", "torchvision.utils.make_grid": "picture",
    "torchvision.utils.save_image": "picture",
}  # fmt: skip


def check(context: Context) -> Iterator[Finding]:
    """Find costly logging in each pass."""
    for loop in step_loops(context):
        for event in context.trace.calls(*_CALLS):
            if not event.context.within(loop.frame) or not each_pass(event.context, loop.frame):
                continue
            what = _CALLS[event.name]
            yield context.finding(
                RULE,
                event,
                f"a {what} is logged in each step: its values are copied to the host and written to disk each time",
                evidence=[Evidence("logged", "in each step"), Evidence("what", what)],
                fix=Fix(
                    title="log it every few hundred steps",
                    instruction="put the call under `if step % 500 == 0`",
                    expected="no copy and no write in the other steps",
                ),
            )
