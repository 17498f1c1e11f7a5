"""Sees the first request in a forward or backward pass for which the GPU had no room."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.memory import overflow_seen
from preflight.check.observed.run import Run
from preflight.check.rule import Example
from preflight.check.rules.memory.step_exceeds_device import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True

_LOOP = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    step().backward()
    optimizer.step()
"""

BAD = (
    Example(
        "import torch\nmodel = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(8)]).cuda()\n"
        "def step():\n    return model(torch.randn(262144, 4096, device='cuda')).square().mean()\n" + _LOOP,
        gpu="a10g",
    ),
    Example(
        "import os, torch\nmodel = torch.nn.Conv2d(3, 512, 3, padding=1).to('cuda')\nside = int(os.environ.get('SIDE', 2048))\n"
        "def step():\n    return torch.relu(model(torch.zeros(8, 3, side, side).cuda())).sum()\n" + _LOOP,
        gpu="t4",
    ),
    Example(
        "import torch\nmodel = torch.nn.Embedding(50000, 1024).cuda()\n"
        "def step():\n    x = model(torch.randint(50000, (64, 1024), device='cuda'))\n"
        "    return (x @ model.weight.T).logsumexp(-1).mean()\n" + _LOOP,
        gpu="v100",
    ),
)

GOOD = (
    Example(
        "import torch\nmodel = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(8)]).cuda()\n"
        "def step():\n    return model(torch.randn(16384, 4096, device='cuda')).square().mean()\n" + _LOOP,
        gpu="a10g",
    ),
)


def observe(run: Run) -> Iterator[Finding]:
    """Find the request that had no room."""
    fix = Fix(
        title="make the step smaller",
        instruction="a smaller batch per GPU with gradient accumulation, activation checkpointing, bf16 autocast, or sharding",
        expected="the peak of the step stays below the capacity",
    )
    yield from overflow_seen(run, RULE, "an operator", fix, "forward", "backward", "eval")
