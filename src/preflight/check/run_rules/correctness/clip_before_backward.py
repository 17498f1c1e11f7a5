"""Sees clipping that finds no gradient, before the backward pass that the step then uses unclipped."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.observed.updates import idle_clips
from preflight.check.rules.correctness.clip_before_backward import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True

BAD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def prepare():
    opt.zero_grad()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
for _ in range(8):
    prepare()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    opt.step()
""",
    """
import torch
class Trainer:
    def __init__(self):
        self.net = torch.nn.Linear(8, 2).cuda()
        self.opt = torch.optim.AdamW(self.net.parameters())
    def cost(self, x):
        loss = self.net(x).square().mean()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        return loss
    def update(self, x):
        self.cost(x).backward()
        self.opt.step()
        self.opt.zero_grad(set_to_none=False)
trainer = Trainer()
for _ in range(8):
    trainer.update(torch.randn(4, 8, device="cuda"))
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.Adam(net.parameters())
for _ in range(8):
    loss = net(torch.randn(4, 8, device="cuda")).sum()
    for name in ("clip", "zero", "backward", "step"):
        if name == "clip":
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        elif name == "zero":
            net.zero_grad()
        elif name == "backward":
            loss.backward()
        else:
            opt.step()
""",
)

GOOD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for number in range(8):
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    if number % 2:
        opt.step()
        opt.zero_grad()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find clipping that comes before the first step and never finds a gradient of its own step."""
    for optimizer, clips, steps in idle_clips(run):
        if clips[0].order > steps[0].order:
            continue
        last = clips[-1]
        yield run.finding(
            RULE,
            last.line,
            f"gradients are clipped before backward() computes them: {optimizer.kind} steps on unclipped gradients",
            evidence=[
                seen("clippings", len(clips)),
                seen("gradients in them that no step has used yet", 0),
                seen("limit", last.data["limit"]),
            ],
            fix=Fix(
                title="clip between backward() and step()",
                instruction="move the clipping between backward() and step()",
                expected="the step uses clipped gradients",
            ),
            related=[(line, "gradients are computed here") for line in steps[-1].data["lines"][:1]],
        )
