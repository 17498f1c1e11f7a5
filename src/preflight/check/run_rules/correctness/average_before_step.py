"""Sees updates of an averaged model between the backward pass and the step of each pass."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.average_before_step import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True


BAD = (
    """
import torch
from torch.optim.swa_utils import AveragedModel
net = torch.nn.Linear(8, 2).cuda()
average = AveragedModel(net)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
hooks = [lambda: average.update_parameters(net), opt.step]
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    for hook in hooks:
        hook()
""",
    """
import torch
from torch.optim import swa_utils
class Trainer:
    def __init__(self):
        self.net = torch.nn.Linear(8, 2).cuda()
        self.ema = swa_utils.AveragedModel(self.net, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.99))
        self.opt = torch.optim.AdamW(self.net.parameters())
    def before_step(self):
        self.ema.update_parameters(self.net)
    def update(self, x):
        self.opt.zero_grad()
        self.net(x).sum().backward()
        self.before_step()
        self.opt.step()
trainer = Trainer()
for _ in range(8):
    trainer.update(torch.randn(4, 8, device="cuda"))
""",
    """
import torch
from torch.optim.swa_utils import AveragedModel as Average
net = torch.nn.Linear(8, 2).cuda()
opt, averages = torch.optim.Adam(net.parameters()), {0.9: Average(net)}
def update(loss):
    opt.zero_grad()
    loss.backward()
    for average in averages.values():
        average.update_parameters(net)
    opt.step()
for _ in range(8):
    update(net(torch.randn(4, 8, device="cuda")).square().mean())
""",
)

GOOD = (
    """
import torch
from torch.optim.swa_utils import AveragedModel
net = torch.nn.Linear(8, 2).cuda()
average = AveragedModel(net)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
average.update_parameters(net)
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    opt.step()
    average.update_parameters(net)
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find averages whose every update comes after a backward pass and before the step of it."""
    steps = run.seen("optimizer step")
    places: dict[str, list[int]] = {}
    for item in run.seen("average update"):
        places.setdefault(item.line, []).append(item.order)
    for line, orders in places.items():
        if len(orders) < 2 or len(steps) < 2:
            continue
        early = [order for order in orders if _between(run, order)]
        if len(early) < len(orders):
            continue
        yield run.finding(
            RULE,
            line,
            f"the average of the weights is updated before the optimizer steps, in all of {len(orders)} updates: it holds the weights "
            "of one step before",
            evidence=[seen("updates of the average", len(orders)), seen("of them before the step", len(early))],
            fix=Fix(
                title="update the average after the step",
                instruction="call update_parameters() after optimizer.step()",
                expected="the average takes in the weights of this step",
            ),
            related=[(steps[-1].line, "the optimizer steps here")],
            confidence="certain",
        )


def _between(run: Run, order: int) -> bool:
    """Whether the last thing before was a backward pass, and the next thing is a step."""
    events = run.seen("gradients", "optimizer step")
    before = [item for item in events if item.order < order]
    after = [item for item in events if item.order > order]
    return bool(before and after) and before[-1].what == "gradients" and after[0].what == "optimizer step"
