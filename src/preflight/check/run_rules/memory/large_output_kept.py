"""A large result of the forward pass is still held when the next one begins.

## What it does
Looks at what the forward pass made and is still on the GPU when the optimizer steps, and names the line and the bytes.

## Why
A variable keeps what it holds until it is given something else.
`logits = model(x)` keeps the old logits while the new ones are computed: both are there at the peak of the next step.

## Fix
`del` the variable after its last use, or compute the loss inside the model or a function, whose names go when it returns.

## When to ignore
When the run fits with room to spare.

## References
- PyTorch documentation, FAQ, "My model reports CUDA out of memory"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.quantity import format_bytes

RULE = Rule(name="large-output-kept", code="MEM021", severity="info", layer="V", tags=("memory", "dry-run"))

_NET = """
import torch
import torch.nn.functional as F
model = torch.nn.Sequential(torch.nn.Embedding(50000, 256), torch.nn.Linear(256, 50000)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randint(50000, (8, 512), device="cuda")
"""

BAD = (
    _NET
    + """
for _ in range(4):
    logits = model(x)
    loss = F.cross_entropy(logits.view(-1, 50000), x.view(-1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    _NET
    + """
class Trainer:
    def step(self):
        self.output = model(x)
        F.cross_entropy(self.output.flatten(0, 1), x.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
trainer = Trainer()
for _ in range(4):
    trainer.step()
""",
    _NET
    + """
results = {}
for _ in range(4):
    results["logits"] = model(x)
    results["loss"] = F.cross_entropy(results["logits"].transpose(1, 2), x)
    results["loss"].backward()
    optimizer.step()
    optimizer.zero_grad()
""",
)

GOOD = (
    _NET
    + """
def loss_of(x):
    logits = model(x)
    return F.cross_entropy(logits.view(-1, 50000), x.view(-1))
for _ in range(4):
    loss_of(x).backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    _NET
    + """
for _ in range(4):
    logits = model(x)
    loss = F.cross_entropy(logits.view(-1, 50000), x.view(-1))
    del logits
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""",
)

_LEAST, _SHARE = 64 << 20, 0.08


def observe(run: Run) -> Iterator[Finding]:
    """Find large tensors of the forward pass that are alive at a step after the first."""
    if run.profile.steps < 2 or run.profile.peak_bytes == 0:
        return
    held: dict[str, dict[int, int]] = {}
    made: dict[str, str] = {}
    for item in run.seen("alive at step"):
        if item.data["age"] == 0:
            by_step = held.setdefault(item.line, {})
            by_step[item.step] = by_step.get(item.step, 0) + item.count * int(item.data["bytes"])
            made.setdefault(item.line, str(item.data["operator"]))
    for line, by_step in held.items():
        size = min(by_step.values())
        if len(by_step) < 2 or size < max(_LEAST, _SHARE * run.profile.peak_bytes):
            continue
        yield run.finding(
            RULE,
            line,
            f"{format_bytes(size)} that are made here are still held when the optimizer steps and while the next forward "
            "pass computes the same anew",
            evidence=[
                seen("bytes still held at the step", size, "bytes"),
                seen("share of the peak", round(size / run.profile.peak_bytes, 3)),
                seen("made by", made[line]),
            ],
            fix=Fix(
                title="let go of the result after its last use",
                instruction="del the variable before optimizer.step(), or compute the loss in a function",
                expected=f"up to {format_bytes(size)} less at the peak",
            ),
        )
