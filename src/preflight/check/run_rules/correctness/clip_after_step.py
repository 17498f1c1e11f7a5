"""Sees clipping of gradients that the optimizer has used already."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.observed.updates import idle_clips
from preflight.check.rules.correctness.clip_after_step import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True

BAD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def finish():
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
def update(loss, after=finish):
    opt.zero_grad()
    loss.backward()
    opt.step()
    after()
for _ in range(8):
    update(net(torch.randn(4, 8, device="cuda")).sum())
""",
    """
import torch
class Engine:
    hooks = []
    def __init__(self, net):
        self.net, self.opt = net.cuda(), torch.optim.AdamW(net.parameters())
    def run(self, x):
        self.opt.zero_grad()
        self.net(x).square().mean().backward()
        self.opt.step()
        for hook in self.hooks:
            hook(self)
Engine.hooks.append(lambda engine: torch.nn.utils.clip_grad_value_(engine.net.parameters(), 0.5))
engine = Engine(torch.nn.Linear(8, 2))
for _ in range(8):
    engine.run(torch.randn(4, 8, device="cuda"))
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.Adam(net.parameters())
clip = getattr(torch.nn.utils, "clip_grad_norm_")
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    opt.step()
    clip(list(net.parameters()), max_norm=1.0)
""",
)

GOOD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def closure():
    opt.zero_grad()
    loss = net(torch.randn(4, 8, device="cuda")).sum()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    return loss
for _ in range(8):
    opt.step(closure)
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find clipping that only ever finds gradients that a step has used."""
    for optimizer, clips, steps in idle_clips(run):
        if clips[0].order < steps[0].order:
            continue
        last = clips[-1]
        yield run.finding(
            RULE,
            last.line,
            f"gradients are clipped after {optimizer.kind} has stepped: the {last.data['used']} gradients were used unclipped",
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
            related=[(steps[0].line, "the optimizer steps here")],
        )
