"""Sees float16 products under autocast whose gradients are computed from a loss that nothing has scaled."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rules.numerics.fp16_autocast_without_scaler import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True

BAD = (
    """
import contextlib, torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.Adam(net.parameters())
@contextlib.contextmanager
def precision():
    with torch.autocast("cuda"):
        yield
for _ in range(8):
    opt.zero_grad()
    with precision():
        loss = net(torch.randn(4, 8, device="cuda")).square().mean()
    loss.backward()
    opt.step()
""",
    """
import torch
class Trainer:
    def __init__(self, fp16=True):
        self.net, self.dtype = torch.nn.Linear(8, 2).cuda(), torch.float16 if fp16 else torch.bfloat16
        self.opt = torch.optim.AdamW(self.net.parameters())
        self.scaler = torch.amp.GradScaler("cuda", enabled=self.dtype is torch.bfloat16)
    def update(self, x):
        self.opt.zero_grad()
        with torch.autocast("cuda", dtype=self.dtype):
            loss = self.net(x).square().mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
trainer = Trainer()
for _ in range(8):
    trainer.update(torch.randn(4, 8, device="cuda"))
""",
    """
import torch
net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 2)).cuda()
net.forward = torch.autocast("cuda", dtype=getattr(torch, "half"))(net.forward)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(8):
    opt.zero_grad()
    net(torch.randn(2, 3, 8, 8, device="cuda")).float().square().mean().backward()
    opt.step()
""",
)

GOOD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.Adam(net.parameters())
scaler = torch.amp.GradScaler("cuda")
for _ in range(8):
    opt.zero_grad()
    with torch.autocast("cuda"):
        loss = net(torch.randn(4, 8, device="cuda")).square().mean()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.Adam(net.parameters())
for _ in range(8):
    opt.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = net(torch.randn(4, 8, device="cuda")).square().mean()
    loss.backward()
    opt.step()
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.Adam(net.parameters())
scale = 1024.0
for _ in range(8):
    opt.zero_grad()
    with torch.autocast("cuda"):
        loss = net(torch.randn(4, 8, device="cuda")).square().mean()
    (loss * scale).backward()
    for p in net.parameters():
        p.grad.div_(scale)
    opt.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find runs with float16 under autocast where no loss is ever multiplied."""
    # The input of the first layer is still float32: what matters is that the region is on, and that it means float16.
    half = [
        row
        for row in run.profile.precision
        if row.what == "product" and row.autocast == "on" and row.dtype == "float16"
    ]
    passes = run.seen("backward")
    if (
        not half
        or not run.complete
        or run.seen("scaler scale")
        or any(item.data["loss"] == "MulBackward0" for item in passes)
    ):
        return
    if not any(item.data["live"] for item in run.seen("update")):
        return
    calls = sum(row.calls for row in half)
    yield run.finding(
        RULE,
        passes[-1].line,
        f"{calls} products run in float16 under autocast and no loss was scaled in {len(passes)} backward passes: gradients below "
        "6e-8 become 0",
        evidence=[
            seen("products in float16", calls),
            seen("scaled losses", 0),
            seen("backward passes", len(passes)),
        ],
        fix=Fix(
            title="scale the loss, or use bfloat16",
            instruction="add a torch.amp.GradScaler, or give autocast dtype=torch.bfloat16",
            expected="small gradients survive",
        ),
        related=[(half[0].line, "float16 products run here")],
    )
