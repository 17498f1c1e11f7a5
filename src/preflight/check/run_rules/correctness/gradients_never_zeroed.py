"""Sees steps whose gradients hold those that the step before has used."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.observed.updates import plain_updates
from preflight.check.rules.correctness.gradients_never_zeroed import RULE
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
    """
import torch
maker, judge = torch.nn.Linear(4, 8).cuda(), torch.nn.Linear(8, 1).cuda()
one, two = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())
for _ in range(10):
    judge.zero_grad()
    made = maker(torch.randn(4, 4, device="cuda"))
    (judge(made.detach()).mean() - judge(torch.randn(4, 8, device="cuda")).mean()).backward()
    two.step()
    maker.zero_grad()
    judge(made).mean().neg().backward()
    one.step()
""",
    """
import torch
model = torch.nn.Linear(10, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    for p in model.parameters():
        if p.grad is not None:
            p.grad.data.zero_()
    model(torch.randn(4, 10, device="cuda")).sum().backward()
    optimizer.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find optimizers whose every step after the first still has gradients in it that the step before has used."""
    for _, optimizer, steps in plain_updates(run):
        later = steps[1:]
        if not all(item.data["reused"] and item.data["live"] for item in later):
            continue
        first = later[0]
        line = first.data["lines"][-1] if first.data["lines"] else first.line
        yield run.finding(
            RULE,
            line,
            f"{first.data['reused']} gradients of {optimizer.kind} still hold those of the last step when this backward pass "
            "adds to them: each step uses the sum of all steps so far",
            evidence=[
                seen("steps that used gradients of the step before", len(later)),
                seen("optimizer steps", len(steps)),
            ],
            fix=Fix(
                title="clear the gradients before backward()",
                instruction="call zero_grad() of this optimizer once per step",
                expected="each step uses the gradient of its own batch",
            ),
            related=[(optimizer.line, "the optimizer is made here")],
            confidence="certain",
        )
