"""Number types that an operation cannot combine.

## What it does
Explains an exception about the types of numbers: names the module, the tensors of the statement with their types, and the line that made each of them.

## Why
Layers multiply only numbers of one type, and losses of classes need integers as targets.
NumPy makes float64, a Python float makes float32, autocast and `half()` make 16 bits: where two of these meet in a product, the run stops.

## Fix
Convert the input once, where it is made: `.float()`, `dtype=torch.float32`, `.long()` for class numbers.

## When to ignore
Never: the run stops.

## References
- PyTorch documentation, "Tensor attributes": type promotion does not apply to matrix products
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.refused import Refused
from preflight.check.observed.run import Run
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="types-do-not-fit",
    code="DTY001",
    severity="error",
    confidence="likely",
    layer="V",
    tags=("precision", "dry-run"),
)

BAD = (
    """
import torch
net = torch.nn.Linear(8, 4).cuda()
x = torch.randn(2, 8).double()
net(x.cuda()).sum().backward()
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8).half(), nn.Linear(8, 2)
    def forward(self, x):
        return self.second(self.first(x))
net = Net().cuda()
net(torch.randn(2, 8, device="cuda", dtype=torch.float16)).sum().backward()
""",
    """
import torch
from torch import nn
net = nn.Linear(8, 4).cuda()
labels = torch.tensor([0.0, 1.0])
nn.CrossEntropyLoss()(net(torch.randn(2, 8).cuda()), labels.cuda()).backward()
""",
)

GOOD = (
    """
import torch
from torch import nn
net = nn.Linear(8, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = net(torch.randn(2, 8).cuda().half())
    nn.functional.mse_loss(out.float() * torch.ones(4, dtype=torch.float64).cuda(), torch.ones(2, 4).cuda()).backward()
    optimizer.step()
""",
)

_TYPES = r"same dtype|target dtype|expected dtype|scalar type|should be the same|cast to the desired output type"


def observe(run: Run) -> Iterator[Finding]:
    """Look for an exception about number types, and for what it is about."""
    refused = Refused.of(run)
    if refused is None or not refused.says(_TYPES):
        return
    types = list(dict.fromkeys(t["dtype"] for t in (*refused.inputs, *refused.own, *refused.named, *refused.given)))
    of_loss = refused.is_loss or "nll_loss" in refused.operator
    wanted = "int64 class numbers (.long())" if of_loss else "one type"
    yield run.finding(
        RULE,
        refused.line,
        f"{refused.where} gets {' and '.join(types[:3])} ({refused.text[:120].rstrip('.')}): the run stops here",
        evidence=refused.evidence(),
        fix=Fix(
            title="convert one of them",
            instruction=f"give it {wanted}: convert the tensor where it is made, or run the layers under autocast",
            expected="the statement runs",
        ),
        related=refused.sources(),
        confidence=refused.confidence,
    )
