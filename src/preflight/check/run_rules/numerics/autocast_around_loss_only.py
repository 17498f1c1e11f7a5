"""Sees losses under autocast while no product of the forward pass is."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rules.numerics.autocast_around_loss_only import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True

BAD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.Adam(net.parameters())
@torch.autocast("cuda", dtype=torch.bfloat16)
def cost(out):
    return torch.nn.functional.cross_entropy(out, torch.zeros(4, dtype=torch.long, device="cuda"))
for _ in range(8):
    opt.zero_grad()
    cost(net(torch.randn(4, 8, device="cuda"))).backward()
    opt.step()
""",
    """
import contextlib, torch
class Trainer:
    def __init__(self, net):
        self.net, self.opt = net, torch.optim.AdamW(net.parameters())
        self.amp = contextlib.ExitStack
    def predict(self, x):
        return self.net(x)
    def update(self, x):
        self.opt.zero_grad()
        out = self.predict(x)
        with self.amp() as stack:
            stack.enter_context(torch.autocast("cuda", dtype=torch.bfloat16))
            loss = torch.nn.functional.mse_loss(out, x[:, :2])
        loss.backward()
        self.opt.step()
trainer = Trainer(torch.nn.Linear(8, 2).cuda())
for _ in range(8):
    trainer.update(torch.randn(4, 8, device="cuda"))
""",
    """
import torch
net = torch.nn.Conv2d(3, 1, 3).cuda()
criterion = torch.nn.BCEWithLogitsLoss()
criterion.forward = torch.autocast("cuda", dtype=torch.bfloat16)(criterion.forward)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(8):
    opt.zero_grad()
    out = net(torch.randn(2, 3, 8, 8, device="cuda"))
    criterion(out, torch.ones_like(out)).backward()
    opt.step()
""",
)

GOOD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.Adam(net.parameters())
for _ in range(8):
    opt.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = net(torch.randn(4, 8, device="cuda"))
    torch.nn.functional.cross_entropy(out.float(), torch.zeros(4, dtype=torch.long, device="cuda")).backward()
    opt.step()
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.Adam(net.parameters())
for _ in range(8):
    opt.zero_grad()
    out = net(torch.randn(4, 8, device="cuda"))
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=False):
        loss = torch.nn.functional.cross_entropy(out, torch.zeros(4, dtype=torch.long, device="cuda"))
    loss.backward()
    opt.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find runs whose only use of autocast is the loss."""
    products = [row for row in run.profile.precision if row.what == "product"]
    losses = [row for row in run.profile.precision if row.what == "loss" and row.autocast == "on"]
    if not run.complete or not losses or not products or any(row.autocast == "on" for row in products):
        return
    if any(row.dtype in ("float16", "bfloat16") for row in products):
        return
    yield run.finding(
        RULE,
        losses[0].line,
        f"autocast encloses only the loss: all {sum(row.calls for row in products)} products of the model run outside of it, in "
        f"{products[0].dtype}",
        evidence=[
            seen("products under autocast", 0),
            seen("products outside", sum(row.calls for row in products)),
        ],
        fix=Fix(
            title="move the call of the model into the autocast block",
            instruction="call the model inside the autocast block; backward stays outside",
            expected="matrix products run in 16 bit",
        ),
        related=[(products[0].line, "the model runs here")],
    )
