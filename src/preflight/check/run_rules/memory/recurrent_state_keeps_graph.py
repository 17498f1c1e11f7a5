"""Sees the error of a backward pass that reaches into the graph of the step before."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rules.memory.recurrent_state_keeps_graph import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True


BAD = (
    """
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
memory = {"state": torch.zeros(4, 8, device="cuda")}
def cost(x):
    memory["state"] = net(x + memory["state"])
    return memory["state"].square().mean()
for _ in range(8):
    opt.zero_grad()
    cost(torch.randn(4, 8, device="cuda")).backward()
    opt.step()
""",
    """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.state = torch.nn.GRUCell(8, 8), None
    def forward(self, x):
        self.state = self.cell(x, self.state)
        return self.state
net = Model().cuda()
opt = torch.optim.Adam(net.parameters())
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).square().mean().backward()
    opt.step()
""",
    """
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 2), torch.nn.Tanh()).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
average = 0.0
for _ in range(8):
    opt.zero_grad()
    loss = net(torch.randn(4, 8, device="cuda")).square().mean()
    average = 0.9 * average + 0.1 * loss
    (loss / average).backward()
    opt.step()
""",
)

GOOD = (
    """
import torch
net = torch.nn.GRUCell(8, 8).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
state = torch.zeros(4, 8, device="cuda")
for _ in range(8):
    opt.zero_grad()
    state = net(torch.randn(4, 8, device="cuda"), state.detach())
    state.square().mean().backward()
    opt.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Explain the exception, where it comes at the line at which the pass before succeeded."""
    if not run.raised("backward through the graph a second time"):
        return
    passes = run.seen("backward")
    if len(passes) < 2 or passes[-1].line != passes[-2].line:
        return
    yield run.finding(
        RULE,
        passes[-1].line,
        f"backward pass {len(passes)} reaches into the graph of the one before, which is freed: something is carried over from "
        "step to step with its graph",
        evidence=[
            seen("backward passes that succeeded", len(run.seen("gradients"))),
            seen("optimizer steps before", run.profile.steps),
        ],
        fix=Fix(
            title="detach what is carried over",
            instruction="detach the state, the average or the buffer that outlives a step: state = state.detach()",
            expected="each step has a graph of its own",
        ),
        severity="error",
        confidence="certain",
    )
