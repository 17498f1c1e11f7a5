"""Sees convolutions in half precision whose input is in the default layout."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.products import share
from preflight.check.observed.run import Run, seen
from preflight.check.rules.efficiency.channels_last_missing import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True

_NET = """
import torch
from torch import nn
model = nn.Sequential(*[nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU()) for _ in range(4)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 64, 32, 32, device="cuda")
def train(model, x, dtype=torch.bfloat16):
    for _ in range(4):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype):
            loss = model(x).mean()
        loss.backward()
        optimizer.step()
"""

BAD = (
    _NET + "train(model, x)\n",
    _NET + "train(model, x, torch.float16)\n",
    _NET
    + "class Wrapper(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.inner = model\n"
    "    def forward(self, x):\n        return self.inner(x.permute(0, 1, 3, 2).contiguous())\ntrain(Wrapper(), x)\n",
)

GOOD = (
    _NET + "train(model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last))\n",
    _NET + "train(model.to(memory_format=torch.channels_last), x)\n",
)

_MOST = 0.5


def observe(run: Run) -> Iterator[Finding]:
    """Find steps most of whose arithmetic is convolutions in half precision and default layout."""
    seen_here = [
        i for i in run.seen("convolution") if i.data["dtype"] in ("float16", "bfloat16") and i.data["channels"] >= 8
    ]
    slow = [i for i in seen_here if not i.data["channels_last"]]
    work = sum(i.count * int(i.data["multiplications"]) for i in seen_here)
    part = sum(i.count * int(i.data["multiplications"]) for i in slow) / work if work else 0.0
    of_all = share(run, lambda kind: "conv" in kind.operator)
    if part < _MOST or of_all < _MOST:
        return
    calls = run.seen("call")
    yield run.finding(
        RULE,
        calls[0].line if calls else slow[0].line,
        f"{part:.0%} of the work of convolutions is in half precision on data in the default layout: tensor-core kernels "
        "transpose it before and after",
        evidence=[
            seen("share of the convolutions' work in the default layout", round(part, 3)),
            seen("share of convolutions in the step's FLOP", round(of_all, 3)),
        ],
        fix=Fix(
            title="use the channels-last layout",
            instruction="model.to(memory_format=torch.channels_last) and batch.to(memory_format=torch.channels_last)",
            expected="fewer transposes around convolutions",
        ),
        confidence="certain",
    )
