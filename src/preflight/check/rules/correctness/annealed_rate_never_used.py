"""A learning rate is annealed in a variable that the optimizer never sees.

## What it does
Looks for a variable that gave the optimizer its learning rate, and that the loop changes without telling the optimizer.

## Why
The optimizer copies the number when it is made.
`lr = lr * 0.95` changes the variable only: training goes on at the first rate, while the log shows a falling one.

## Fix
Write it into the optimizer: `for group in optimizer.param_groups: group["lr"] = lr`, or use a scheduler.

## When to ignore
When something that cannot be seen reads the variable.

## References
- PyTorch, `torch.optim`, "Per-parameter options"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.learning_rates import optimizers, short
from preflight.check.queries.parameters import stepped
from preflight.check.rule import Rule
from preflight.source.trace import Carry, Event, provenance
from preflight.source.values import Known, Obj, Unknown, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="annealed-rate-never-used",
    code="SCH004",
    severity="error",
    confidence="likely",
    needs=("optimizer", "training_loop", "complete"),
    tags=("schedule",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
lr = 0.1
optimizer = torch.optim.SGD(model.parameters(), lr=lr)
for epoch in range(30):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    lr *= 0.95
    print(epoch, lr)
""",
    """
import argparse
from torch import nn
from torch.optim import Adam as Opt
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=1e-3)
args = parser.parse_args()
def main():
    rate = args.lr
    net = nn.Linear(10, 2)
    opt = Opt(net.parameters(), rate)
    for epoch in range(10):
        if epoch > 5:
            rate = rate / 2
        for x, y in loader:
            opt.zero_grad()
            nn.functional.mse_loss(net(x), y).backward()
            opt.step()
main()
""",
    """
import torch
from dataclasses import dataclass
from torch import nn
@dataclass
class Config:
    lr: float = 0.1
config = Config()
net = nn.Linear(10, 2)
def train(lr):
    opt = torch.optim.AdamW(net.parameters(), lr=lr)
    step = 0
    while step < 1000:
        x, y = next(batches)
        opt.zero_grad()
        nn.functional.mse_loss(net(x), y).backward()
        opt.step()
        step += 1
        lr = lr * 0.999
train(config.lr)
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
lr = 0.1
optimizer = torch.optim.SGD(model.parameters(), lr=lr)
for epoch in range(30):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    lr *= 0.95
    for group in optimizer.param_groups:
        group["lr"] = lr
""",
    """
import torch
from torch import nn
from mylibrary import adjust
model = nn.Linear(10, 2)
lr = 0.1
optimizer = torch.optim.SGD(model.parameters(), lr=lr)
for epoch in range(30):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    lr *= 0.95
    adjust(optimizer, lr)
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
lr = 0.1
for epoch in range(30):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    lr *= 0.95
""",
)

_SHOWS = (
    "builtins.print",
    "builtins.format",
    "builtins.round",
    "builtins.str",
    ".format",
    ".append",
    ".write",
    ".set_description",
)
_LOGS = (".info", ".debug", ".add_scalar", ".log", ".set_postfix", "wandb.log", "logging.")


def check(context: Context) -> Iterator[Finding]:
    """Find variables that gave a rate and are changed in vain."""
    if any(store.name in ("['lr']", "['initial_lr']", "lr") for store in context.trace.stores):
        return
    for optimizer in optimizers(context):
        given = optimizer.argument(1, "lr")
        base = settle(given) if given is not None else None
        if not isinstance(base, Known) or not any(
            t.steps and _steps(context, t.steps, optimizer) for t in context.reading.loops
        ):
            continue
        for carry in context.trace.carried:
            if settle(carry.before) is base and _annealed(carry) and not _used(context, carry):
                yield _finding(context, optimizer, base, carry)
                break


def _steps(context: Context, steps: list[Event], optimizer: Obj) -> bool:
    return any(stepped(context.reading, s) is optimizer for s in steps)


def _annealed(carry: Carry) -> bool:
    """Whether the loop computes the variable from itself."""
    return carry.final is not None and any(p is carry.mark for p in provenance(carry.final, 30))


def _used(context: Context, carry: Carry) -> bool:
    """Whether a call is given the variable that does more than show it."""
    for event in context.trace.events:
        if not event.context.within(carry.frame) or event.name in _SHOWS or event.name.startswith(_LOGS):
            continue
        for value in (*event.args, *event.kwargs.values(), *([event.receiver] if event.receiver is not None else [])):
            if any(p is carry.mark or p is carry.final for p in provenance(value, 25)):
                return True
    return any(p is carry.mark for s in context.trace.stores for p in provenance(s.value, 25))


def _finding(context: Context, optimizer: Obj, base: Known, carry: Carry) -> Finding:
    final: Value | None = carry.final
    place = final if isinstance(final, (Unknown, Obj)) and final.site is not None else optimizer
    return context.finding(
        RULE,
        place,
        f'"{carry.name}" is changed in the loop, but {short(optimizer)} took {base.value:g} when it was made: '
        "training goes on at the first rate",
        evidence=[Evidence("rate of the optimizer", base.value), Evidence('writes to param_groups["lr"]', 0)],
        fix=Fix(
            title="write the rate into the optimizer",
            instruction=f'for group in optimizer.param_groups: group["lr"] = {carry.name}; or use a scheduler',
            expected="the rate falls as intended",
        ),
        related=[(optimizer, "the optimizer takes the number here")],
    )
