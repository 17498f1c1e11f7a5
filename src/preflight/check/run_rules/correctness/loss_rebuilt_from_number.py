"""Sees backward passes from a loss without a graph, which reach no parameter."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.graph import NO_GRAPH, calls_before_error
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.loss_rebuilt_from_number import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True


BAD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def cost(outputs):
    losses = [out.square().mean().item() for out in outputs]
    return torch.tensor(sum(losses), requires_grad=True)
for _ in range(8):
    opt.zero_grad()
    cost(net(torch.randn(4, 8, device="cuda"))).backward()
    opt.step()
""",
    """
import torch
class Trainer:
    def __init__(self):
        self.net = torch.nn.Linear(8, 2).cuda()
        self.opt = torch.optim.Adam(self.net.parameters())
    def loss(self, x):
        out = self.net(x).detach().requires_grad_()
        return (out * 2).square().mean()
    def update(self, x):
        self.opt.zero_grad()
        self.loss(x).backward()
        self.opt.step()
trainer = Trainer()
for _ in range(8):
    trainer.update(torch.randn(4, 8, device="cuda"))
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.AdamW(net.parameters())
def reduce(value):
    return torch.as_tensor(value, device="cuda")
for _ in range(8):
    opt.zero_grad()
    loss = net(torch.randn(4, 8, device="cuda")).square().mean()
    reduce(float(loss)).backward()
    opt.step()
""",
)

GOOD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(8):
    opt.zero_grad()
    loss = net(torch.randn(4, 8, device="cuda")).square().mean()
    loss.backward()
    print(torch.tensor(loss.item()))
    opt.step()
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda().requires_grad_(False)
image = torch.randn(1, 8, device="cuda", requires_grad=True)
opt = torch.optim.Adam([image], lr=0.1)
for _ in range(8):
    opt.zero_grad()
    net(image).square().mean().backward()
    opt.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find losses without a graph, and runs whose every backward pass reaches no parameter."""
    if run.raised(NO_GRAPH):
        calls = calls_before_error(run)
        if any(item.data["graph"] for item in calls) and any(p.trainable for p in run.profile.parameters):
            yield _finding(run, run.raised_at, "the loss has no graph, and backward() raises an error", 1)
        return
    passes = [item for item in run.seen("gradients") if item.data["of"]]
    trainable = sum(p.trainable and p.network is not None and bool(p.optimizers) for p in run.profile.parameters)
    called = any(m.graph_calls for m in run.profile.modules if m.network is not None)
    if len(passes) < 2 or any(item.data["reached"] for item in passes) or not trainable or not called:
        return
    if not any(o.steps > 1 for o in run.optimizers) or any(item.data["by_hand"] for item in run.seen("update")):
        return
    text = f"none of {len(passes)} backward passes reaches one of the {trainable} parameters: no gradient flows from this loss"
    yield _finding(run, passes[-1].line, text, len(passes))


def _finding(run: Run, line: str, text: str, passes: int) -> Finding:
    return run.finding(
        RULE,
        line,
        text,
        evidence=[seen("backward passes", passes), seen("parameters that they reach", 0)],
        fix=Fix(
            title="call backward() on the loss itself",
            instruction="compute the loss from the output of the network with operators on tensors; item(), float(), detach() and "
            "torch.tensor() are for what is logged",
            expected="the parameters get gradients",
        ),
        confidence="certain",
    )
