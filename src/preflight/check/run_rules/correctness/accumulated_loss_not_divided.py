"""Sees a step on the sum of the gradients of several batches, each of which was a mean."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.accumulation import is_plain_mean, loss_of, one_batch_each, only_updates, passes_before
from preflight.check.observed.run import Run, seen
from preflight.check.rules.correctness.accumulated_loss_not_divided import RULE
from preflight.vocabulary.finding import Finding

BAD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
settings = {"every": 4}
def learn(x, y):
    torch.nn.functional.cross_entropy(net(x), y).backward()
for i in range(40):
    learn(torch.randn(4, 8, device="cuda"), torch.zeros(4, dtype=torch.long, device="cuda"))
    if not (i + 1) % settings["every"]:
        optimizer.step()
        optimizer.zero_grad()
""",
    """
import torch
class Trainer:
    def __init__(self, **options):
        self.net = torch.nn.Linear(8, 2).cuda()
        self.optimizer = torch.optim.AdamW(self.net.parameters())
        self.loss = torch.nn.MSELoss()
        self.scaler = torch.amp.GradScaler("cuda")
        vars(self).update(options)
    def micro(self):
        with torch.autocast("cuda", torch.float16):
            loss = self.loss(self.net(torch.randn(4, 8, device="cuda")).float(), torch.zeros(4, 2, device="cuda"))
        self.scaler.scale(loss).backward()
    def step(self):
        for _ in range(self.parts):
            self.micro()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
trainer = Trainer(parts=3)
for _ in range(6):
    trainer.step()
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.Adam(net.parameters())
parts = int("2")
for _ in range(8):
    optimizer.zero_grad()
    for part in torch.randn(4 * parts, 8).cuda().chunk(parts):
        net(part).square().mean().backward()
    optimizer.step()
""",
)

GOOD = (
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(40):
    loss = torch.nn.functional.cross_entropy(net(torch.randn(4, 8).cuda()), torch.zeros(4, dtype=torch.long).cuda()) / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(6):
    optimizer.zero_grad()
    for part in torch.randn(8, 8).cuda().chunk(2):  # sums are meant to be added
        net(part).square().sum().backward()
    optimizer.step()
""",
    """
import torch
net = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(6):
    optimizer.zero_grad()
    out = net(torch.randn(8, 8).cuda())
    for loss in (out[:, 0].square().mean(), out[:, 1].abs().mean()):  # two losses of one batch
        loss.backward(retain_graph=True)
    optimizer.step()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find steps, all of which use several batches whose losses were plain means."""
    steps = only_updates(run)
    if not steps or any(item.data["alive"] < 2 for item in steps[1:]):
        return
    passes = [item for step in steps for item in passes_before(run, step)]
    if not all(one_batch_each(run, step) for step in steps) or not all(is_plain_mean(run, item) for item in passes):
        return
    count, optimizer = max(item.data["alive"] for item in steps), run.optimizers[steps[0].data["optimizer"]]
    operator, place = loss_of(run, passes[-1])
    yield run.finding(
        RULE,
        passes[-1].line,
        f"the gradients of {count} batches are added, and each loss is a mean that is not divided by {count}: every step of "
        f"{optimizer.kind} uses {count} times the gradient of the batch that they make up",
        evidence=[
            seen("backward passes before a step", count),
            seen("steps", len(steps)),
            seen("last operator of the loss", operator.strip("_")),
        ],
        fix=Fix(
            title=f"divide the loss by {count}",
            instruction="divide it by the number of accumulated batches before backward()",
            expected="the gradient is that of the large batch",
        ),
        related=[(place, "the loss is computed here"), (steps[-1].line, "the step is here")],
    )


def disproves(run: Run, finding: Finding) -> bool:
    """Whether every loss that the steps used was seen to be divided, or scaled, after its mean."""
    steps = only_updates(run)
    passes = [item for step in steps for item in passes_before(run, step)]
    return bool(passes) and all(loss_of(run, item)[0] in ("div", "mul") for item in passes)
