"""Sees clipping that is given no parameters at all."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.exhausted_parameter_generator import RULE
from preflight.vocabulary.finding import Finding

BAD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
def trainable(model):
    return (p for p in model.parameters() if p.requires_grad)
params = trainable(net)
opt = torch.optim.SGD(params, lr=0.1)
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    torch.nn.utils.clip_grad_norm_(params, 1.0)
    opt.step()
""",
    """
import torch
class Trainer:
    def __init__(self, net):
        self.net, self.params = net, filter(lambda p: p.requires_grad, net.parameters())
        self.opt = torch.optim.Adam(self.params)
    def update(self, x):
        self.opt.zero_grad()
        self.net(x).sum().backward()
        torch.nn.utils.clip_grad_norm_(self.params, 1.0, foreach=False)
        self.opt.step()
trainer = Trainer(torch.nn.Linear(8, 2).cuda())
for _ in range(8):
    trainer.update(torch.randn(4, 8, device="cuda"))
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.Adam(net.parameters())
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    torch.nn.utils.clip_grad_norm_([p for name, p in net.named_parameters() if name.startswith("decoder")], 1.0)
    opt.step()
""",
)

GOOD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
params = list(net.parameters())
opt = torch.optim.SGD(params, lr=0.1)
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(4, 8, device="cuda")).sum().backward()
    torch.nn.utils.clip_grad_norm_(params, 1.0)
    opt.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find places that clip nothing, each time but perhaps the first."""
    places: dict[str, list[int]] = {}
    for item in run.seen("clip"):
        places.setdefault(item.line, []).append(item.data["parameters"])
    for line, counts in places.items():
        if len(counts) < 2 or any(counts[1:]):
            continue
        yield run.finding(
            RULE,
            line,
            "the clipping is given no parameters: it clips nothing and reports a norm of 0",
            evidence=[seen("clippings", len(counts)), seen("parameters in them", counts[-1])],
            fix=Fix(
                title="give it the parameters",
                instruction="keep a list, list(model.parameters()), or call parameters() again here",
                expected="the gradients are clipped",
            ),
        )
