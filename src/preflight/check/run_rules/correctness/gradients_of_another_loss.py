"""A step also uses gradients that another network's loss has left.

## What it does
With several optimizers: finds one whose step uses, beside the gradient of its own loss, that of an earlier loss which another optimizer has stepped on already, and which reached these parameters only on its way.

## Why
The loss of a generator goes through the discriminator, and leaves gradients there that point the wrong way: they would make the discriminator worse.
The same holds for a critic through which the loss of the policy goes.
Where they are not cleared before the discriminator's own backward pass, its step applies both.

## Fix
Call `zero_grad()` of an optimizer right before the backward pass of its own loss; or switch `requires_grad` off for the part that is only passed through.

## When to ignore
When the two losses are meant to train this part together.

## References
- Goodfellow et al., "Generative Adversarial Networks", 2014: both players have losses of their own
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.observed.updates import plain_updates
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="gradients-of-another-loss",
    code="ACC007",
    severity="error",
    confidence="likely",
    layer="V",
    tags=("optimizer", "autograd", "dry-run"),
)

BAD = (
    """
import torch
maker, judge = torch.nn.Linear(4, 8).cuda(), torch.nn.Linear(8, 1).cuda()
one, two = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())
for _ in range(8):
    one.zero_grad()
    made = maker(torch.randn(4, 4, device="cuda"))
    judge(made).mean().neg().backward()
    one.step()
    judge(made.detach()).mean().backward()
    two.step()
    two.zero_grad()
""",
    """
import torch
class Agent:
    def __init__(self):
        self.actor, self.critic = torch.nn.Linear(4, 2).cuda(), torch.nn.Linear(6, 1).cuda()
        self.optimizers = [torch.optim.Adam(part.parameters()) for part in (self.actor, self.critic)]
    def policy(self, x):
        self.critic(torch.cat([x, self.actor(x)], 1)).mean().neg().backward()
        self.optimizers[0].step()
        self.optimizers[0].zero_grad()
    def value(self, x):
        with torch.no_grad():
            action = self.actor(x)
        self.critic(torch.cat([x, action], 1)).square().mean().backward()
        self.optimizers[1].step()
        self.optimizers[1].zero_grad()
agent = Agent()
for _ in range(8):
    x = torch.randn(4, 4, device="cuda")
    agent.policy(x)
    agent.value(x)
""",
    """
import torch
maker, judge = torch.nn.Linear(4, 8).cuda(), torch.nn.Linear(8, 1).cuda()
one, two = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())
def train(optimizer, loss, clear):
    clear.zero_grad()
    loss.backward()
    optimizer.step()
for _ in range(8):
    made = maker(torch.randn(4, 4, device="cuda"))
    two.zero_grad()
    maker.zero_grad()
    loss = judge(made).mean().neg()
    loss.backward()
    one.step()
    train(two, judge(made.detach()).mean(), one)
""",
)

GOOD = (
    """
import torch
maker, judge = torch.nn.Linear(4, 8).cuda(), torch.nn.Linear(8, 1).cuda()
one, two = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())
for _ in range(8):
    one.zero_grad()
    made = maker(torch.randn(4, 4, device="cuda"))
    judge(made).mean().neg().backward()
    one.step()
    two.zero_grad()
    judge(made.detach()).mean().backward()
    two.step()
""",
    """
import torch
body, head = torch.nn.Linear(4, 8).cuda(), torch.nn.Linear(8, 1).cuda()
one, two = torch.optim.Adam(head.parameters()), torch.optim.Adam(body.parameters())
for step in range(20):  # the body steps on the sum of two batches
    head(body(torch.randn(4, 4, device="cuda"))).mean().backward()
    one.step()
    one.zero_grad()
    if step % 2:
        two.step()
        two.zero_grad()
""",
)


def observe(run: Run) -> Iterator[Finding]:
    """Find steps, two or more of an optimizer, with a foreign pass among those in its gradients."""
    for _, optimizer, steps in plain_updates(run):
        mixed = [item for item in steps if item.data["foreign"]]
        if len(mixed) < 2:
            continue
        last = mixed[-1]
        other = run.optimizers[last.data["foreign_of"][-1]]
        yield run.finding(
            RULE,
            last.line,
            f"this step of {optimizer.kind} also uses the gradients that the loss of {other.kind}'s parameters has left in its own",
            evidence=[
                seen("steps with gradients of another loss", len(mixed)),
                seen("backward passes in the gradients", last.data["alive"]),
            ],
            fix=Fix(
                title="clear these gradients before their own backward pass",
                instruction="call zero_grad() of this optimizer right before the backward pass of its own loss",
                expected="the step uses the gradient of its own loss alone",
            ),
            related=[
                (last.data["foreign"][-1], "this loss leaves gradients here"),
                (other.line, "it belongs to this optimizer"),
                (optimizer.line, "this optimizer is made here"),
            ],
        )
