"""Large tensors are copied from the GPU in every step.

## What it does
Adds up what each line of the script copies from the GPU to the host in every training step.

## Why
The host waits for the copy, and the GPU waits for the host.
Pageable memory takes 3 to 12 GB/s: 100 MB are 10 ms and more, as much as a whole step of a small network.

## Fix
Reduce on the GPU and copy the result, copy every n steps, or copy with `non_blocking=True` into pinned memory and read it later.

## When to ignore
When the copy is the purpose: features are extracted, samples are stored.

## References
- PyTorch documentation, "CUDA semantics", asynchronous execution
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.observed.steps import in_every_step
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.quantity import format_bytes

RULE = Rule(
    name="large-copies-to-host", code="EFF005", severity="warning", layer="V", tags=("gpu", "copies", "dry-run")
)  # fmt: skip

_NET = """
import torch
model = torch.nn.Embedding(50000, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
outputs = []
def step():
    x = torch.randint(50000, (64, 512), device="cuda")
    out = model(x)
    optimizer.zero_grad()
    out.square().mean().backward()
    optimizer.step()
    return out
"""

BAD = (
    _NET + "for _ in range(4):\n    outputs.append(step().detach().cpu())\n",
    _NET + "import numpy\nfor _ in range(4):\n    out = step().detach().to('cpu').numpy()\n    print(out.shape)\n",
    _NET
    + "def log(values):\n    return values.tolist()\nfor _ in range(4):\n    log(step().detach().flatten()[:2000000])\n",
)

GOOD = (
    _NET + "for _ in range(4):\n    outputs.append(step().detach().mean().cpu())\n",
    _NET + "for i in range(4):\n    out = step()\n    if i % 100 == 99:\n        outputs.append(out.detach().cpu())\n",
)

_LEAST = 4 << 20


def observe(run: Run) -> Iterator[Finding]:
    """Find the lines that copy much in every step."""
    copies = [i for i in run.seen("device to host") if i.phase != "eval" and i.data["bytes"] >= _LEAST // 16]
    for line, count in in_every_step(run, copies).items():
        mine = [i for i in copies if i.line == line and 1 <= i.step < run.profile.steps]
        size = sum(i.count * int(i.data["bytes"]) for i in mine) // max(1, run.profile.steps - 1)
        if size < _LEAST:
            continue
        yield run.finding(
            RULE,
            line,
            f"{format_bytes(size)} are copied from the GPU to the host in each step, and the host waits for them",
            evidence=[seen("copied per step", size, "bytes"), seen("copies per step", count)],
            fix=Fix(
                title="copy less, or less often",
                instruction="reduce on the GPU and copy the result, or copy under `if step % n == 0`",
                expected=f"{format_bytes(size)} less over the host's link in each step",
            ),
        )
