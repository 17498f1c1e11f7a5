"""The network is called twice on the same batch.

## What it does
Looks for two calls of one network with the same input in a training step, the second of which feeds no loss.

## Why
A forward pass is about a third of a training step: the second one makes each step about 33 % longer, and with gradients on it holds a second set of activations.

## Fix
Use the output of the first call, detached.

## When to ignore
When dropout or batch norm must act differently in the second call.

## References
- PyTorch documentation, "Performance tuning guide"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.evaluations import feeds_loss
from preflight.check.queries.kept_graphs import used_in_losses
from preflight.check.queries.steps import each_pass, step_loops
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.training import same
from preflight.source.values import options_of
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="forward-repeated-for-metrics",
    code="EFF012",
    severity="info",
    confidence="likely",
    needs=("training_loop", "model"),
    layer="D",
    tags=("metrics",),
)

_HEAD = """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def accuracy(net, x, y):
    return (net(x).argmax(1) == y).float().mean()
for x, y in data:
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
BAD = (
    _HEAD + "    print((model(x).argmax(1) == y).sum())\n",
    _HEAD + "    with torch.no_grad():\n        acc = accuracy(model, x, y)\n",
    "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--metrics', type=int, default=1)\nargs = parser.parse_args()\n"
    + _HEAD
    + "    if args.metrics:\n        hits = accuracy(model, x, y)\n",
)
GOOD = (
    _HEAD + "    noisy = model(x + 0.1)\n",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(data):
    loss = nn.functional.mse_loss(model(x), model(x))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if i % 100 == 0:
        model.eval()
        print(model(x))
        model.train()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find second calls on the same batch whose result trains nothing."""
    used = used_in_losses(context)
    models = {id(m) for m in context.reading.models}
    for loop in step_loops(context):
        modes = [e for e in loop.events if e.name == ".eval"]
        calls = [
            e
            for e in loop.events
            if e.name == "()"
            and e.args
            and any(id(o) in models for o in options_of(e.receiver))
            and each_pass(e.context, loop.frame)
        ]
        for index, second in enumerate(calls):
            first = next((e for e in calls[:index] if _alike(e, second) and feeds_loss(e, used)), None)
            if first is None or feeds_loss(second, used) or modes or first.node is second.node:
                continue
            yield context.finding(
                RULE,
                second,
                "the network is called again on the batch that it was trained on, and the result feeds no loss: the step has one forward pass too many",
                evidence=[Evidence("forward passes on the same batch", 2)],
                related=[(first, "the first call")],
                fix=Fix(
                    title="use the output of the first call",
                    instruction="keep the first output and use output.detach() for the metric",
                    expected="one forward pass less per step, about a quarter of its work",
                ),
            )


def _alike(first: Event, second: Event) -> bool:
    """Whether two calls give the same network the same arguments."""
    if (
        not same(first.receiver, second.receiver)
        or len(first.args) != len(second.args)
        or set(first.kwargs) != set(second.kwargs)
    ):
        return False
    pairs = [*zip(first.args, second.args, strict=True), *((first.kwargs[k], second.kwargs[k]) for k in first.kwargs)]
    return all(any(a is b for a in options_of(x) for b in options_of(y)) for x, y in pairs)
