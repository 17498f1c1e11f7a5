"""Sees an optimizer's step for whose states or temporaries the GPU had no room."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.memory import overflow_seen
from preflight.check.observed.run import Run
from preflight.check.rule import Example
from preflight.check.rules.memory.optimizer_states_exceed_device import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True

_NET = """
import torch
model = torch.nn.Sequential(*[torch.nn.Linear(16384, 16384, bias=False) for _ in range({depth})]).cuda()
"""
_LOOP = """
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(2, 16384, device="cuda")).sum().backward()
    optimizer.step()
"""

BAD = (
    Example(_NET.format(depth=6) + "optimizer = torch.optim.AdamW(model.parameters())\n" + _LOOP, gpu="a10g"),
    Example(
        _NET.format(depth=6)
        + "def make(kind):\n    return getattr(torch.optim, kind)(model.parameters(), lr=1e-3)\noptimizer = make('Adam')\n"
        + _LOOP,
        gpu="rtx4090",
    ),
    Example(
        _NET.format(depth=5) + "optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)\n" + _LOOP,
        gpu="t4",
    ),
)

GOOD = (
    Example(_NET.format(depth=3) + "optimizer = torch.optim.AdamW(model.parameters())\n" + _LOOP, gpu="a10g"),
    Example(_NET.format(depth=6) + "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n" + _LOOP, gpu="a10g"),
)


def observe(run: Run) -> Iterator[Finding]:
    """Find a step that had no room."""
    fix = Fix(
        title="make the optimizer's states smaller",
        instruction="8-bit or factored states, states sharded over GPUs, or foreach=False where its temporaries are too much",
        expected="the states fit beside parameters and gradients",
    )
    yield from overflow_seen(run, RULE, "the optimizer", fix, "optimizer")
