"""Sees the learning rates that the steps really used."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.observed.updates import held_by
from preflight.check.queries.learning_rates import USUAL, is_adapted
from preflight.check.rules.config.learning_rate_out_of_range import RULE
from preflight.vocabulary.finding import Finding

BAD = (
    """
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).cuda()
rates = {"default": 0.5}
opt = torch.optim.Adam(net.parameters())
for group in opt.param_groups:
    group.update(lr=rates["default"])
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).square().mean().backward()
    opt.step()
""",
    """
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).cuda()
opt = torch.optim.AdamW(net.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.LambdaLR(opt, lambda epoch: 10.0 * 0.9**epoch)
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).square().mean().backward()
    opt.step()
    schedule.step()
""",
    """
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).cuda()
def rate(step, warm=1000):
    return 1e-3 * (step // warm)
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
for step in range(8):
    for group in opt.param_groups:
        group["lr"] = rate(step)
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).square().mean().backward()
    opt.step()
""",
)

GOOD = (
    """
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).cuda()
opt = torch.optim.Adam(net.parameters(), lr=1.0)
schedule = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: min((step + 1) ** -0.5, (step + 1) * 4000**-1.5) * 0.04)
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).square().mean().backward()
    opt.step()
    schedule.step()
""",
    """
import torch
image = torch.randn(1, 8, device="cuda", requires_grad=True)
opt = torch.optim.Adam([image], lr=0.5)
for _ in range(8):
    opt.zero_grad()
    image.square().mean().backward()
    opt.step()
""",
    """
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).cuda()
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: min(1.0, step / 100))
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).square().mean().backward()
    opt.step()
    warm.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Compare the rates of all steps with what is usual, and find optimizers whose rate is 0 in every step."""
    for number, optimizer in enumerate(run.optimizers):
        steps = [item for item in run.seen("optimizer step") if item.data["optimizer"] == number]
        rates = [rate for item in steps for rate in item.data["rates"]]
        usual = USUAL.get(optimizer.kind)
        if len(steps) < 2 or not rates or is_adapted(run.context):
            continue
        highest = max(rates)
        deep = sum(len(p.shape) > 1 and p.network is not None for p in held_by(run, number)) > 1
        if highest == 0:
            text = (
                f"{optimizer.kind} uses a learning rate of 0 in all of its first {len(steps)} steps: nothing is trained"
            )
        elif usual is not None and highest >= usual.high and deep:
            text = f"{optimizer.kind} uses a learning rate of {highest:g}: usual is {usual.text}; each step replaces the weights"
        else:
            continue
        yield run.finding(
            RULE,
            optimizer.line,
            text,
            evidence=[
                seen("highest learning rate that a step used", highest),
                seen("steps", len(steps)),
                *([seen("usual range", usual.text)] if usual is not None else []),
            ],
            fix=Fix(
                title="choose a learning rate in the usual range",
                instruction="look at what sets the rate: the optimizer's lr, the scheduler's factor, or the code that writes to "
                "param_groups",
                expected="the loss falls",
            ),
            related=[(steps[-1].line, "the optimizer steps here")],
            confidence="likely",
        )
