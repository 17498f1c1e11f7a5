"""Sees gradients that are still there, unchanged, when the next backward pass after a step begins."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.rules.correctness.gradients_never_zeroed import RULE
from preflight.check.run import Run, seen
from preflight.vocabulary.finding import Finding

SETTLES = True

BAD = (
    """
import torch
model = torch.nn.Linear(10, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    loss = model(torch.randn(4, 10, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
""",
    """
import torch
class Trainer:
    def __init__(self):
        self.net = torch.nn.Linear(10, 2).to("cuda")
        self.opt = torch.optim.AdamW(self.net.parameters())
    def clear(self):
        if self.opt is None:
            self.opt.zero_grad()
    def fit(self, batches):
        for x, y in batches:
            self.clear()
            torch.nn.functional.mse_loss(self.net(x.cuda()), y.cuda()).backward()
            self.opt.step()
data = torch.utils.data.TensorDataset(torch.randn(64, 10), torch.randn(64, 2))
Trainer().fit(torch.utils.data.DataLoader(data, batch_size=8))
""",
    """
import torch
model = torch.nn.Linear(10, 2).cuda()
other = torch.nn.Linear(10, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    other.zero_grad()
    model(torch.randn(4, 10, device="cuda")).sum().backward()
    optimizer.step()
""",
)

GOOD = (
    """
import torch
model = torch.nn.Linear(10, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    for p in model.parameters():
        p.grad = None
    model(torch.randn(4, 10, device="cuda")).sum().backward()
    optimizer.step()
""",
    """
import torch
model = torch.nn.Linear(10, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(12):
    (model(torch.randn(4, 10, device="cuda")).sum() / 4).backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find backward passes that add to the gradients of the last step, in every step."""
    kept = run.seen("gradients kept over a step")
    for at, optimizer in enumerate(run.optimizers):
        mine = [item for item in kept if item.data["optimizer"] == at]
        if optimizer.steps < 2 or len(mine) < optimizer.steps - 1:
            continue
        first = mine[0]
        yield run.finding(
            RULE,
            first.line,
            f"{first.data['stale']} of {first.data['of']} gradients of {optimizer.kind} are still those of the last step when "
            "this backward pass begins: each step uses the sum of all steps so far",
            evidence=[
                seen("steps after which the gradients stayed", len(mine)),
                seen("optimizer steps", optimizer.steps),
            ],
            fix=Fix(
                title="clear the gradients before backward()",
                instruction="call zero_grad() of this optimizer once per step",
                expected="each step uses the gradient of its own batch",
            ),
            related=[(optimizer.line, "the optimizer is made here")],
            confidence="certain",
        )
