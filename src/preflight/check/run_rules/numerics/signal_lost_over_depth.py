"""Activations or gradients grow or shrink from layer to layer.

## What it does
Takes layers of one class that stand in a row, and compares the root mean square of what the first and the last of them give, and of their gradients, in the first step with real numbers on the CPU.
It speaks when one is 10,000 times the other (gradients: 100,000 times), and the way there is steady.

## Why
A factor per layer becomes a power over depth.
What explodes ends in NaN, or in an optimizer that is kept quiet by clipping; layers whose gradient is a hundred-thousandth of the last one's stay as they were drawn, and only the top of the network learns.

## Fix
Draw the weights by fan-in (`kaiming_normal_` for ReLU, `xavier_normal_` for tanh), add normalisation or residual connections, and avoid sigmoid between layers.

## When to ignore
When the layers are not a chain, for example branches for different tasks.

## References
- Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks" (2010)
- He et al., "Delving Deep into Rectifiers" (2015)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from preflight.check.context import Fix
from preflight.check.observed.probed import from_scratch, probe_of, setting
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.probe import Chain

RULE = Rule(
    name="signal-lost-over-depth",
    code="NUM010",
    severity="warning",
    confidence="likely",
    layer="V",
    tags=("numerics", "initialisation", "dry-run", "probe"),
)

_LOOP = """
optimizer = torch.optim.Adam(net.parameters())
for step in range(100):
    loss = nn.functional.mse_loss(net(torch.randn(16, 64).cuda()), torch.randn(16, 1).cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

BAD = (
    f"""
import torch
from torch import nn
layers = []
for _ in range(10):
    layers += [nn.Linear(64, 64), nn.Sigmoid()]
net = nn.Sequential(*layers, nn.Linear(64, 1)).cuda()
{_LOOP}""",
    f"""
import torch
from torch import nn
class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(64, 64) for _ in range(8)])
        self.head = nn.Linear(64, 1)
        for layer in self.layers:
            nn.init.normal_(layer.weight, std=1.0)
    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(x)
net = Deep().to("cuda")
{_LOOP}""",
    f"""
import torch
from torch import nn
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)
        self.apply(self.start)
    def start(self, module):
        if isinstance(module, nn.Linear):
            module.weight.data.normal_(0, 0.02)
            module.bias.data.zero_()
    def forward(self, x):
        return self.down(torch.tanh(self.up(x)))
net = nn.Sequential(*[Block() for _ in range(9)], nn.Linear(64, 1)).cuda()
{_LOOP}""",
)

GOOD = (
    f"""
import torch
from torch import nn
layers = []
for _ in range(10):
    layers += [nn.Linear(64, 64), nn.ReLU()]
net = nn.Sequential(*layers, nn.Linear(64, 1))
for layer in net:
    if isinstance(layer, nn.Linear):
        nn.init.kaiming_normal_(layer.weight)
net.cuda()
{_LOOP}""",
    f"""
import torch
from torch import nn
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, 256), nn.Linear(256, 64)
        nn.init.zeros_(self.down.weight)
    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))
net = nn.Sequential(*[Block() for _ in range(12)], nn.LayerNorm(64), nn.Linear(64, 1)).cuda()
{_LOOP}""",
)

_OUTPUTS, _GRADIENTS, _LAYERS = 1e4, 1e5, 4


def observe(run: Run) -> Iterator[Finding]:
    """Find rows of layers along which the signal or its gradient changes by orders of magnitude."""
    probe = probe_of(run)
    if probe is None or not from_scratch(probe):
        return
    for model in probe.models:
        for chain in model.chains:
            found = _said(chain)
            if found is None:
                continue
            what, first, last, count = found
            parent = chain.parent or model.name
            yield run.finding(
                RULE,
                model.line,
                f"over the {count} layers of {parent} ({chain.kind}) the {what} go from {first:.2g} to {last:.2g}: "
                f"a factor of {(last / first) ** (1 / (count - 1)):.2g} from layer to layer",
                evidence=[
                    seen(f"root mean square of the {what}, first layer", first),
                    seen(f"root mean square of the {what}, last layer", last),
                    setting(probe),
                ],
                fix=Fix(
                    title="draw the weights by fan-in, or normalise between the layers",
                    instruction="kaiming_normal_ for ReLU, xavier_normal_ for tanh; LayerNorm or residual connections for depth",
                    expected="all layers give, and get gradients, of about the same size",
                ),
            )
            break


def _said(chain: Chain) -> tuple[str, float, float, int] | None:
    for what, values, limit in (("outputs", chain.outputs, _OUTPUTS), ("gradients", chain.gradients, _GRADIENTS)):
        sizes = [value for value in values if value]
        # A layer that begins at zero on purpose says nothing of the others.
        if len(sizes) < max(_LAYERS, len(values)):
            continue
        ratio = sizes[-1] / sizes[0]
        same = sum((b > a) == (ratio > 1) for a, b in pairwise(sizes))
        if max(ratio, 1 / ratio) >= limit and same >= 0.75 * (len(sizes) - 1):
            return what, sizes[0], sizes[-1], len(sizes)
    return None
