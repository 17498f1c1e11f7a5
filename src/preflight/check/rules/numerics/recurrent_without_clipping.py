"""A recurrent network is trained without gradient clipping.

## What it does
Looks for a training loop whose loss comes from an LSTM, GRU or RNN and that steps the optimizer without clipping gradients anywhere.

## Why
The gradient through t steps is a product of t Jacobians; where their norm is above one, it grows exponentially with the length.
A single long sequence can then throw the weights far away, and the loss jumps or becomes NaN.

## Fix
Clip before the step: `torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)`.

## When to ignore
When sequences are short and the gradient norm is watched.

## References
- Pascanu, Mikolov, Bengio: On the difficulty of training recurrent neural networks, 2013
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.clipping import clip_edit, clips
from preflight.check.queries.tensors import graph, module_of
from preflight.check.rule import Rule
from preflight.source.trace import provenance
from preflight.source.training import TrainingLoop
from preflight.source.values import Obj
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="recurrent-without-clipping",
    code="NUM011",
    severity="warning",
    confidence="likely",
    needs=("training_loop", "complete"),
    layer="D",
    tags=("numerics", "gradients"),
)

BAD = (
    """
import torch, torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 2)
    def forward(self, x):
        h, _ = self.rnn(x)
        return self.out(h[:, -1])
net = Net()
optimizer = torch.optim.Adam(net.parameters())
for x, y in loader:
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    """
import torch
from torch.nn import GRU
class Trainer:
    def __init__(self):
        self.net = GRU(8, 8)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
    def update(self, x, y):
        self.opt.zero_grad()
        out, hidden = self.net(x)
        torch.nn.functional.mse_loss(out, y).backward()
        self.opt.step()
trainer = Trainer()
for epoch in range(10):
    for x, y in loader:
        trainer.update(x, y)
""",
    """
import argparse, torch
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--cell", default="gru")
args = p.parse_args()
cell = nn.GRUCell(8, 8) if args.cell == "gru" else nn.LSTMCell(8, 8)
opt = torch.optim.RMSprop(cell.parameters())
for xs in loader:
    h = torch.zeros(4, 8)
    for x in xs:
        h = cell(x, h)
    opt.zero_grad()
    h.square().mean().backward()
    opt.step()
""",
)

GOOD = (
    """
import torch, torch.nn as nn
rnn = nn.LSTM(8, 8)
opt = torch.optim.Adam(rnn.parameters())
def clip(parameters, limit):
    for p in parameters:
        p.grad.data.clamp_(-limit, limit)
for x, y in loader:
    out, _ = rnn(x)
    opt.zero_grad()
    nn.functional.mse_loss(out, y).backward()
    clip(rnn.parameters(), 1.0)
    opt.step()
""",
    """
import torch, torch.nn as nn
from training_tools import clipped_step
frozen, head = nn.LSTM(8, 8), nn.Linear(8, 2)
opt = torch.optim.Adam(head.parameters())
for x, y in loader:
    with torch.no_grad():
        h, _ = frozen(x)
    opt.zero_grad()
    nn.functional.cross_entropy(head(h[-1]), y).backward()
    opt.step()
rnn = nn.GRU(8, 8)
second = torch.optim.Adam(rnn.parameters())
for x, y in loader:
    nn.functional.mse_loss(rnn(x)[0], y).backward()
    clipped_step(second, rnn.parameters())
    second.step()
""",
)

_RECURRENT = frozenset(f"torch.nn.{n}" for n in ("LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell"))


def check(context: Context) -> Iterator[Finding]:
    """Look for loops whose loss passes a recurrent layer and that never clip."""
    if context.reading.made("engine") or context.trace.calls("torch.autograd.Function.apply"):
        return
    for loop in context.reading.loops:
        layer = _recurrent(context, loop)
        if layer is None or not loop.steps or loop.frame.shadow or clips(context, loop):
            continue
        step = loop.steps[0]
        name = layer.name.rpartition(".")[2]
        yield context.finding(
            RULE,
            step,
            f"the gradients of the {name} are never clipped: through many steps they can grow exponentially",
            evidence=[Evidence("recurrent layer", name), Evidence("calls that clip gradients", 0)],
            related=[(layer, "the recurrent layer is made here")],
            fix=Fix(
                title="clip the gradient norm before the step",
                edits=edits(clip_edit(context, loop)),
                instruction="call torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0) between backward() and step()",
                expected="one long sequence cannot throw the weights away",
            ),
        )


def _recurrent(context: Context, loop: TrainingLoop) -> Obj | None:
    flowing = graph(context).gradient
    for loss in loop.losses():
        for part in provenance(loss):
            module = module_of(part) if isinstance(part, Obj) and id(part) in flowing else None
            if module is not None and module.cls is None and module.name in _RECURRENT:
                return module
    return None
