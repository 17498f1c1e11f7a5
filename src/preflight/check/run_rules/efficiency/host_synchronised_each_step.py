"""Sees the host wait for the GPU in every step, by the script's own statements."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.observed.steps import in_every_step
from preflight.check.rules.efficiency.host_synchronised_each_step import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True

_NET = """
import torch
model = torch.nn.Linear(16, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0.0
"""

BAD = (
    _NET
    + """
for _ in range(4):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 16, device="cuda")).sum()
    loss.backward()
    optimizer.step()
    total += loss.item()
""",
    _NET
    + """
class Meter:
    def update(self, value):
        self.last = float(value)
meter = Meter()
def step():
    optimizer.zero_grad()
    loss = model(torch.randn(8, 16).to("cuda")).square().mean()
    meter.update(loss)
    loss.backward()
    optimizer.step()
for _ in range(4):
    step()
""",
    _NET
    + """
for _ in range(4):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 16, device="cuda")).sum()
    if torch.isnan(loss):
        raise RuntimeError("diverged")
    loss.backward()
    optimizer.step()
""",
)

GOOD = (
    _NET
    + """
for i in range(4):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 16, device="cuda")).sum()
    loss.backward()
    optimizer.step()
    if i % 100 == 99:
        print(loss.item())
""",
    _NET
    + """
scaler = torch.amp.GradScaler("cuda")
for i in range(4):
    optimizer.zero_grad()
    with torch.autocast("cuda", torch.float16):
        loss = model(torch.randn(8, 16, device="cuda")).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
)

_READS = frozenset(("item", "copy to the host", "size depends on numbers"))
_MANY = 3


def observe(run: Run) -> Iterator[Finding]:
    """Find the lines of the script that read from the GPU in every step."""
    scaled = {item.line for item in run.seen("scaler step")}
    waits = [
        item
        for item in run.seen("wait")
        if item.data["direct"] and item.data["kind"] in _READS and item.phase != "eval" and item.line not in scaled
    ]
    lines = in_every_step(run, waits)
    if not lines:
        return
    first, *others = sorted(lines, key=lambda line: min(i.order for i in waits if i.line == line))
    places = "1 place" if len(lines) == 1 else f"{len(lines)} places"
    yield run.finding(
        RULE,
        first,
        f"the host waits for the GPU in each step at {places}, {sum(lines.values())} times per step: the GPU idles until "
        "new work is queued",
        evidence=[
            seen(f"waits per step at {run.place(line).path}:{run.place(line).line}", count)
            for line, count in lines.items()
        ],
        fix=Fix(
            title="read values only every n steps",
            instruction="keep detached tensors, and call .item() under `if step % n == 0`",
            expected="the host queues the next step while the GPU works on this one",
        ),
        related=[(line, run.text(line)[:80] or "here, too") for line in others[:6]],
        severity="warning" if len(lines) >= _MANY or sum(lines.values()) > 2 * _MANY else None,
        confidence="certain",
    )
