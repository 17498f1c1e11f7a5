"""Memory grows from step to step.

## What it does
Compares what is on the GPU at the same point of successive steps, and reports what each step leaves behind, by the line that made it and by who keeps it.

## Why
A list that collects outputs, a sum that keeps its graph, or a state that is carried on without `detach()` grows without an end.
The run dies after hours, at a step that depends on the GPU, not on the batch.

## Fix
Collect `loss.item()` or `output.detach().cpu()`, and `detach()` what is carried into the next step.

## When to ignore
When the growth ends by itself later than the steps that were run: a replay buffer that fills up, a cache of a fixed number of entries.

## References
- PyTorch documentation, FAQ, "My model reports CUDA out of memory"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.growing import because, kept_at, made_at
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.quantity import format_bytes

RULE = Rule(
    name="memory-grows-each-step", code="MEM027", severity="warning", layer="V", tags=("memory", "growth", "dry-run")
)  # fmt: skip

_HEAD = """
import torch
model = torch.nn.Linear(64, 4096).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept, total = [], 0
def step():
    global total
    out = model(torch.randn(512, 64, device="cuda"))
    optimizer.zero_grad()
    out.square().mean().backward()
    optimizer.step()
    return out
"""

BAD = (
    _HEAD + "for _ in range(60):\n    kept.append(step())\n",
    _HEAD + "history = {}\nfor i in range(60):\n    history[i] = step().detach()\n",
    _HEAD + "class Meter:\n    def __init__(self):\n        self.values = []\nmeter = Meter()\nfor i in range(60):\n"
    "    meter.values += [step() * 2]\n",
)

GOOD = (
    _HEAD + "for _ in range(60):\n    kept.append(step().mean().item())\n",
    _HEAD
    + "from collections import deque\nlast = deque(maxlen=4)\nfor _ in range(60):\n    last.append(step().detach())\n",
)

_LEAST = 1 << 20


def observe(run: Run) -> Iterator[Finding]:
    """Find steady growth that does not fill the GPU within the run, or of which nobody knows how long it lasts."""
    memory = run.context.memory
    if memory is not None and memory.oom is not None and memory.oom.phase == "growth":
        return  # growth-exceeds-device says it
    for growth in run.profile.growth:
        if growth.bytes < _LEAST or growth.bounded or not growth.steady or growth.phase != "training":
            continue
        yield run.finding(
            RULE,
            kept_at(growth),
            f"each step leaves {format_bytes(growth.bytes)} on the GPU{because(growth, 'step')}: the memory grows for as long "
            "as the training runs",
            evidence=[
                seen("left by each step", growth.bytes, "bytes"),
                seen("steps that were compared", growth.seen),
            ],
            related=made_at(growth),
            fix=Fix(
                title="keep numbers or tensors of the host, and detach what is carried on",
                instruction="collect loss.item() or output.detach().cpu(); detach() what goes into the next step",
                expected="the memory stays the same from step to step",
            ),
        )
        return
