"""Sees large logits copied to fp32 by hand on their way to the loss."""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rules.memory.logits_upcast_to_fp32 import RULE
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.quantity import format_bytes

_WIDE, _SHARE = 8192, 0.1
"""Fewer classes than a vocabulary has, or a smaller share of the peak, are not worth a word."""
_CAST = re.compile(r"\bfloat\b|float32|\.to\(|\.type\(|upcast")

_NET = """
import torch
from torch import nn
net = nn.Sequential(nn.Embedding(32000, 64), nn.Linear(64, 32000, bias=False)).to("cuda", torch.bfloat16)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randint(32000, (8, 256), device="cuda")
"""
_LOOP = """
for _ in range(4):
    optimizer.zero_grad()
    measure(net(x)).backward()
    optimizer.step()
"""

BAD = (
    f"""{_NET}
def measure(out):
    return nn.functional.cross_entropy(getattr(out, "float")().view(-1, 32000), x.view(-1))
{_LOOP}""",
    f"""{_NET}
wide = {{"dtype": torch.float32}}
def measure(out):
    logits = out.to(**wide)
    return nn.CrossEntropyLoss()(logits.transpose(1, 2), x)
{_LOOP}""",
    f"""{_NET}
class Measure(nn.Module):
    def forward(self, out):
        scores = out.type(torch.FloatTensor if out.device.type == "cpu" else torch.float32)[:, :-1]
        return -scores.log_softmax(-1).gather(-1, x[:, 1:, None]).mean()
measure = Measure()
{_LOOP}""",
)

GOOD = (
    f"""{_NET}
def measure(out):
    return nn.functional.cross_entropy(out.view(-1, 32000), x.view(-1)).float()
{_LOOP}""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find casts of logits that are a large part of the peak."""
    told: set[str] = set()
    for item in run.seen("logits upcast"):
        size, shape = int(item.data["bytes"]), list(item.data["shape"])
        classes = shape[item.data["dim"]]
        small = classes < _WIDE or size < _SHARE * run.profile.peak_bytes or not run.profile.peak_bytes
        if small or item.line in told or not _CAST.search(run.text(item.line)):
            continue
        told.add(item.line)
        share = size / run.profile.peak_bytes
        yield run.finding(
            RULE,
            item.line,
            f"logits of shape {tuple(shape)} are copied to fp32 as a whole: {format_bytes(size)}, and as much again for the "
            f"gradient of the copy, where the peak is {format_bytes(run.profile.peak_bytes)}",
            evidence=[
                seen("bytes of the logits", size // 2, "bytes"),
                seen("bytes of the copy", size, "bytes"),
                seen("share of the peak", round(share, 3)),
            ],
            fix=Fix(
                title="leave the cast to the loss",
                instruction="compute the loss in chunks of tokens, or with a fused kernel that reads the logits as they are",
                expected=f"up to {format_bytes(2 * size)} less at the peak",
            ),
        )
