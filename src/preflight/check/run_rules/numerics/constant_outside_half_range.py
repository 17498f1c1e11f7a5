"""Sees a number that float16 cannot hold being written into a float16 tensor."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.refused import Refused
from preflight.check.observed.run import Run
from preflight.check.rules.numerics.constant_outside_half_range import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True

BAD = (
    """
import torch
from torch import nn
settings = {"fill": -1e9}
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8)
    def forward(self, x, mask):
        scores = self.q(x) @ self.k(x).transpose(-2, -1)
        return scores.masked_fill(mask, settings["fill"]).softmax(-1)
net = Attention().cuda()
with torch.autocast("cuda", dtype=torch.float16):
    net(torch.randn(2, 4, 8).cuda(), torch.ones(4, 4).bool().cuda()).sum().backward()
""",
    """
import torch
from torch import nn
net = nn.Linear(8, 8).cuda().half()
def hide(scores, mask):
    scores[mask] = -1e9
    return scores.masked_fill_(mask, -1e30)
x = torch.randn(4, 8).cuda().half()
hide(net(x) * 1, torch.ones(4, 8).bool().cuda()).softmax(-1).sum().backward()
""",
    """
import torch
net = torch.nn.Linear(8, 8).cuda().to(torch.float16)
def bias(like, value=-1e10):
    return torch.full_like(like, value)
out = net(torch.randn(4, 8, device="cuda", dtype=torch.half))
(out + bias(out)).sum().backward()
""",
)

GOOD = (
    """
import torch
from torch import nn
net = nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
mask = torch.ones(4, 8).bool().cuda()
for _ in range(3):
    optimizer.zero_grad()
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cuda", dtype=dtype):
            out = net(torch.randn(4, 8).cuda())
            big = torch.finfo(out.dtype).min if dtype == torch.float16 else -1e9
            (out.masked_fill(mask, big) + out.masked_fill(mask, float("-inf"))).softmax(-1).sum().backward()
    optimizer.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Look for the exception of a number that does not fit."""
    refused = Refused.of(run)
    if refused is None or not refused.says("without overflow"):
        return
    yield run.finding(
        RULE,
        refused.line,
        "this constant does not fit float16, whose largest number is 65504: the run stops here",
        evidence=refused.evidence(),
        fix=Fix(
            title="use the smallest number of the type",
            instruction='use torch.finfo(scores.dtype).min, or float("-inf") where no row is hidden completely',
            expected="the mask works in every precision",
        ),
        related=refused.sources(),
        confidence="certain",
    )
