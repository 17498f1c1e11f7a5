"""A soft-max is written out in fp16 without subtracting the largest score.

## What it does
Finds exponentials of fp16 numbers that are summed, where nothing was subtracted from the exponent, negated or limited before.

## Why
The largest number of fp16 is 65,504: exp overflows to infinity from 11.09 on.
Scores of that size are common after some training, and one of them makes the quotient infinite divided by infinite, which is NaN.

## Fix
Use `torch.softmax`, `torch.logsumexp` or `log_softmax`: they subtract the largest score first, and compute in fp32.

## When to ignore
When the scores are bounded well below 11, as cosines are.

## References
- PyTorch documentation of torch.logsumexp
- Blanchard, Higham and Higham, "Accurately computing the log-sum-exp and softmax functions" (2021)
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="exponential-in-fp16",
    code="NUM007",
    severity="error",
    confidence="likely",
    layer="V",
    tags=("numerics", "fp16", "dry-run"),
)

_NET = """
import torch
net = torch.nn.Linear(16, 8).cuda().half()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""
_LOOP = """
for _ in range(4):
    optimizer.zero_grad()
    measure(net(torch.randn(4, 16, device="cuda").half())).backward()
    optimizer.step()
"""

BAD = (
    f"""{_NET}
def measure(scores):
    weights = scores.exp()
    return (weights / weights.sum(-1, keepdim=True))[:, 0].mean()
{_LOOP}""",
    f"""{_NET}
def measure(scores):
    return torch.log(getattr(torch, "exp")(scores / 0.5).sum(1)).mean()
{_LOOP}""",
    f"""{_NET}
class Pool(torch.nn.Module):
    def forward(self, scores):
        parts = torch.exp(scores.t())
        return -(parts[0] / torch.sum(parts, 0)).mean()
measure = Pool()
{_LOOP}""",
)

GOOD = (
    f"""{_NET}
def measure(scores):
    weights = (scores - scores.max(-1, keepdim=True).values).exp()
    return (weights / weights.sum(-1, keepdim=True))[:, 0].mean() + torch.softmax(scores, -1).sum()
{_LOOP}""",
    f"""{_NET}
def measure(scores):
    scores = scores.float()
    return torch.log(torch.exp(scores).sum(1)).mean() + torch.exp(-scores.half()).sum()
{_LOOP}""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find sums of fp16 exponentials."""
    told: set[str] = set()
    for item in run.seen("exponentials summed"):
        if item.line in told:
            continue
        told.add(item.line)
        yield run.finding(
            RULE,
            item.line,
            "exp of fp16 scores, from which the largest is not subtracted, is summed: it is infinite from 11.09 on, and the "
            "quotient or logarithm NaN",
            evidence=[
                seen("shape of the scores", str(tuple(item.data["shape"]))),
                seen("operator before", item.data["before"].strip("_")),
            ],
            fix=Fix(
                title="use softmax or logsumexp",
                instruction="they subtract the largest score first; or compute exp in fp32",
                expected="no overflow at any size of the scores",
            ),
        )
