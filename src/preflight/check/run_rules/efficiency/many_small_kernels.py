"""A line of the script launches hundreds of kernels in each step.

## What it does
Counts the operators that each line of the script runs on the GPU in one step, and names a line that runs hundreds of them and a large share of all.

## Why
A kernel over a handful of numbers is over before Python has launched the next: launching takes about 5 microseconds, so 2,000 launches are 10 ms in which the GPU is idle most of the time.
Such lines are loops in Python over time steps, heads, samples or parameters.

## Fix
Work on the whole tensor at once, use a fused layer (`nn.LSTM` in place of `nn.LSTMCell`, `torch._foreach_*`, `scaled_dot_product_attention`), `torch.vmap`, `torch.compile`, or CUDA graphs.

## When to ignore
When the items are large, so that each kernel takes long, or the loop is the algorithm.

## References
- PyTorch documentation, "Performance Tuning Guide"
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="many-small-kernels", code="EFF029", severity="info", layer="V", tags=("gpu", "launches", "dry-run")
)  # fmt: skip

_HEAD = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.all, self.head = nn.Linear(16, 16), nn.GRU(16, 16, batch_first=True), nn.Linear(16, 4)
    def forward(self, x):
"""
_LOOP = """
net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    net(torch.randn(4, 120, 16, device="cuda")).sum().backward()
    optimizer.step()
"""

BAD = (
    _HEAD
    + """
        h = x.new_zeros(x.shape[0], 16)
        for t in range(x.shape[1]):
            h = torch.tanh(self.cell(x[:, t]) + h)
        return self.head(h)
"""
    + _LOOP,
    _HEAD
    + """
        return torch.stack([self.head(row).relu().square().mean() for row in x[0]])
"""
    + _LOOP,
    _HEAD
    + """
        return self.walk(x, 0, x.new_zeros(4, 16))
    def walk(self, x, t, h):
        while t < x.shape[1]:
            h, t = torch.tanh(x[:, t] + h * 0.9).clamp(-1, 1) + self.head(h).sum(), t + 1
        return h
"""
    + _LOOP,
)

GOOD = (
    _HEAD + "        return self.head(self.all(x)[0][:, -1])\n" + _LOOP,
    _HEAD
    + "        for _ in range(8):\n            x = x + self.head(x).sum(-1, keepdim=True)\n        return x\n"
    + _LOOP,
)

_LEAST, _SHARE, _MICROSECONDS = 300, 0.3, 5


def observe(run: Run) -> Iterator[Finding]:
    """Find lines that run many operators in every step, when the whole step is made of small ones."""
    if run.profile.steps < 2 or not _small(run):
        return
    by_line: dict[str, Counter[int]] = {}
    for busy in run.profile.lines:
        by_line.setdefault(busy.line, Counter())[busy.step] += busy.operators
    work = run.profile.work
    launched = sum(work.kinds[at].kernels for at in work.order)
    for line, by_step in by_line.items():
        count = min((by_step[step] for step in range(run.profile.steps)), default=0)
        if count < _LEAST or count < _SHARE * launched / 3 or not run.text(line) or ".train(" in run.text(line):
            continue
        yield run.finding(
            RULE,
            line,
            f"this line runs {count:,} operators in the forward pass of each step, and about twice as many in the backward "
            f"pass: the GPU waits for Python, about {count * 3 * _MICROSECONDS / 1000:.0f} ms per step for launches alone",
            evidence=[seen("operators per step", count), seen("kernels of the whole step", launched)],
            fix=Fix(
                title="work on the whole tensor at once",
                instruction="replace the loop by one operation over the dimension, a fused layer, torch.vmap or torch.compile",
                expected="as many launches as there are operations in one pass of the loop",
            ),
        )
        return


def _small(run: Run) -> bool:
    """Whether the usual kernel moves little: less than 4 MB, which an HBM GPU does within a launch."""
    kinds = run.profile.work.kinds
    sizes = sorted(kinds[at].bytes for at in run.profile.work.order if kinds[at].kernels)
    return bool(sizes) and sizes[len(sizes) // 2] < 4 << 20
