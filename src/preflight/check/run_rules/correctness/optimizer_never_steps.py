"""Sees backward passes that give an optimizer's parameters gradients, and no step of it to the end of the script."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.observed.updates import held_by, unreached
from preflight.check.rules.correctness.optimizer_never_steps import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True

BAD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step
for _ in range(8):
    update(opt, net(torch.randn(4, 8, device="cuda")).square().mean())
""",
    """
import torch
class Wrapped:
    def __init__(self, optimizer):
        self.optimizer = optimizer
    def __getattr__(self, name):
        return lambda *_: None
net = torch.nn.Linear(8, 2).cuda()
inner = torch.optim.Adam(net.parameters())
opt = Wrapped(inner)
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    opt.step()
""",
    """
import torch
a, b = torch.nn.Linear(8, 4).cuda(), torch.nn.Linear(4, 2).cuda()
optimizers = {"a": torch.optim.Adam(a.parameters()), "b": torch.optim.Adam(b.parameters())}
for _ in range(8):
    x = torch.randn(4, 8, device="cuda")
    for optimizer in optimizers.values():
        optimizer.zero_grad()
    a(x).square().mean().backward()
    optimizers["a"].step()
    b(a(x).detach()).square().mean().backward()
""",
)

GOOD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for number in range(8):
    net(torch.randn(4, 8, device="cuda")).square().mean().backward()
    if (number + 1) % 64 == 0:
        opt.step()
        opt.zero_grad()
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
per = {p: torch.optim.SGD([p], lr=0.1) for p in net.parameters()}
def hook(p):
    per[p].step()
    per[p].zero_grad()
for p in net.parameters():
    p.register_post_accumulate_grad_hook(hook)
for _ in range(8):
    net(torch.randn(4, 8, device="cuda")).square().mean().backward()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find optimizers that are fed and never used, though the run came to the end and past every call of step()."""
    passes = run.seen("gradients")
    if run.profile.outcome not in ("ended", "exited") or len(passes) < 2 or unreached(run, "step"):
        return
    none = all(optimizer.steps == 0 for optimizer in run.optimizers)
    for number, optimizer in enumerate(run.optimizers):
        held = held_by(run, number)
        if optimizer.steps or any(p.written or any(run.optimizers[at].steps for at in p.optimizers) for p in held):
            continue
        # Where others step, a loss of another network may go through this one; its own loss reaches it alone.
        mine = [
            item
            for item in passes
            if number in item.data["optimizers"] and (none or item.data["optimizers"] == [number])
        ]
        if len(mine) < 2:
            continue
        yield run.finding(
            RULE,
            mine[-1].line,
            f"{len(mine)} backward passes give the parameters of {optimizer.kind} gradients, and it never steps: no weight of "
            "them changes",
            evidence=[
                seen("backward passes", len(mine)),
                seen("steps of the optimizer", 0),
                seen("parameters with a gradient", sum(p.gradients > 0 for p in held)),
            ],
            fix=Fix(
                title="call step() after backward()",
                instruction="call the optimizer's step() after backward()",
                expected="the weights are updated",
            ),
            related=[(optimizer.line, "the optimizer is made here")],
        )
