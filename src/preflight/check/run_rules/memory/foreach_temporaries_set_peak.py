"""The temporaries of the optimizer's step are the peak of the run.

## What it does
Finds runs whose highest allocation is not in the forward or backward pass but in the optimizer, and says how much the step takes on top.

## Why
On a GPU, optimizers work on all parameters at once by default (`foreach=True`): the intermediate results of one operation exist for the whole model.
For Adam that is about one more copy of the parameters, and it decides the largest batch only when activations are small.

## Fix
`fused=True` computes the update in one kernel without intermediates; `foreach=False` does it parameter by parameter, more slowly.

## When to ignore
When the run fits with room to spare.

## References
- PyTorch documentation, `torch.optim`, "Algorithms: foreach and fused implementations"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.quantity import format_bytes

RULE = Rule(
    name="foreach-temporaries-set-peak", code="MEM005", severity="info", layer="V", tags=("memory", "optimizer", "dry-run")
)  # fmt: skip

_NET = """
import torch
model = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(8)]).cuda()
"""
_LOOP = """
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(16, 4096, device="cuda")).sum().backward()
    optimizer.step()
"""

BAD = (
    _NET + "optimizer = torch.optim.AdamW(model.parameters())\n" + _LOOP,
    _NET + "make = torch.optim.Adam\noptimizer = make(model.parameters(), lr=1e-4, foreach=True)\n" + _LOOP,
    _NET + "optimizer = torch.optim.RMSprop(model.parameters(), momentum=0.9)\n" + _LOOP,
)

GOOD = (
    _NET + "optimizer = torch.optim.AdamW(model.parameters(), fused=True)\n" + _LOOP,
    _NET + "optimizer = torch.optim.AdamW(model.parameters(), foreach=False)\n" + _LOOP,
    _NET + "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n" + _LOOP,
)

_LEAST, _SHARE = 256 << 20, 0.05


def observe(run: Run) -> Iterator[Finding]:
    """Find steps whose optimizer has the peak of the run."""
    if not run.complete or not run.optimizers:
        return
    moments = [moment for moment in run.profile.timeline if moment.step > 0]
    inside = max((moment.allocated for moment in moments if moment.phase == "optimizer"), default=0)
    outside = max((moment.allocated for moment in moments if moment.phase != "optimizer"), default=0)
    more = inside - outside
    if outside == 0 or more < max(_LEAST, _SHARE * outside):
        return
    optimizer = max(run.optimizers, key=lambda made: (made.steps > 0, made.parameters))
    if optimizer.defaults.get("fused") or optimizer.defaults.get("foreach") is False:
        return
    yield run.finding(
        RULE,
        optimizer.line,
        f"the peak of the run is in the step of {optimizer.kind}: its temporaries take {format_bytes(more)} more than the "
        "forward and backward pass",
        evidence=[
            seen("peak in the optimizer", inside, "bytes"),
            seen("peak in the forward and backward pass", outside, "bytes"),
        ],
        fix=Fix(
            title="let the optimizer use a fused kernel",
            instruction=f"pass fused=True to {optimizer.kind} where it has it, else foreach=False",
            expected=f"the peak falls by up to {format_bytes(more)}",
        ),
    )
