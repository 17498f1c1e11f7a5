"""The learning rate is written to one parameter group of several.

## What it does
Looks for `optimizer.param_groups[0]["lr"] = ...` where the optimizer has further groups that nothing writes to.

## Why
Weight decay is often switched off for biases by a second group.
A schedule that writes to group 0 only leaves the second group at its first rate for the whole run.
An index beyond the last group raises IndexError.

## Fix
Write to all groups: `for group in optimizer.param_groups: group["lr"] = lr`.

## When to ignore
When the other groups are meant to keep their rate.

## References
- PyTorch, `torch.optim`, "Per-parameter options"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.parameters import holding_of
from preflight.check.rule import Rule
from preflight.source.trace import Store
from preflight.source.values import Known, Obj, Seq, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="rate-written-to-one-group",
    code="SCH007",
    severity="warning",
    confidence="likely",
    needs=("optimizer",),
    tags=("schedule",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
groups = [{"params": model[0].parameters()}, {"params": model[1].parameters(), "weight_decay": 0.0}]
optimizer = torch.optim.SGD(groups, lr=0.1)
for step in range(1000):
    optimizer.param_groups[0]["lr"] = 0.1 * min(1, step / 100)
    train_step()
""",
    """
import argparse
from torch import nn
from torch.optim import AdamW as Opt
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=1e-3)
args = parser.parse_args()
body, head = nn.Linear(4, 4), nn.Linear(4, 2)
opt = Opt([dict(params=body.parameters()), dict(params=head.parameters(), lr=1e-2)], lr=args.lr)
def adjust(optimizer, epoch):
    optimizer.param_groups[0]["lr"] = args.lr * 0.9 ** epoch
for epoch in range(10):
    adjust(opt, epoch)
""",
    """
import torch
from torch import nn
class Job:
    def __init__(self):
        self.net = nn.Linear(4, 2)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
    def warm(self, step):
        groups = self.opt.param_groups
        groups[1]["lr"] = 0.1 * step / 100
job = Job()
for step in range(100):
    job.warm(step)
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1000):
    optimizer.param_groups[0]["lr"] = 0.1 * min(1, step / 100)
""",
    """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
groups = [{"params": model[0].parameters()}, {"params": model[1].parameters(), "weight_decay": 0.0}]
optimizer = torch.optim.SGD(groups, lr=0.1)
for step in range(1000):
    optimizer.param_groups[0]["lr"] = 0.1 * min(1, step / 100)
    optimizer.param_groups[1]["lr"] = 0.2 * min(1, step / 100)
""",
    """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
groups = [{"params": model[0].parameters()}, {"params": model[1].parameters(), "weight_decay": 0.0}]
optimizer = torch.optim.SGD(groups, lr=0.1)
for step in range(1000):
    for group in optimizer.param_groups:
        group["lr"] = 0.1 * min(1, step / 100)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Compare the groups that are written with those that there are."""
    written: dict[int, tuple[Obj, dict[int | None, Store]]] = {}
    for store in context.trace.stores:
        if store.name == "['lr']":
            for optimizer, index in _target(context, store):
                written.setdefault(id(optimizer), (optimizer, {}))[1].setdefault(index, store)
    for optimizer, indices in written.values():
        held = holding_of(context.reading, optimizer)
        if (
            None in indices
            or not held.complete
            or not _certain(optimizer)
            or context.trace.on(optimizer, "add_param_group")
        ):
            continue
        beyond = [i for i in indices if i is not None and i >= held.groups]
        if beyond:
            yield _finding(context, indices[beyond[0]], beyond[0], held.groups, True)
        elif held.groups > len(indices) and all(i is not None and i >= 0 for i in indices):
            first = min(i for i in indices if i is not None)
            yield _finding(context, indices[first], first, held.groups, False)


def _certain(optimizer: Obj) -> bool:
    """Whether the number of groups is plain to see: one listing, or a list of dictionaries."""
    given = settle(optimizer.args[0]) if optimizer.args else None
    return isinstance(given, Obj) or (isinstance(given, Seq) and not given.open)


def _target(context: Context, store: Store) -> Iterator[tuple[Obj, int | None]]:
    """Optimizer and index of the group whose rate is written; None for an index that may be any."""
    item = settle(store.target)
    if not isinstance(item, Obj) or item.kind != "item" or item.receiver is None:
        return
    groups = settle(item.receiver)
    if not isinstance(groups, Obj) or groups.name != "param_groups" or groups.receiver is None:
        return
    index = settle(item.args[0]) if item.args else None
    number = index.value if isinstance(index, Known) and isinstance(index.value, int) else None
    for option in options_of(groups.receiver, limit=3):
        if isinstance(option, Obj) and context.roles.of(option) == "optimizer" and option.kind in ("call", "instance"):
            yield option, number


def _finding(context: Context, store: Store, index: int, groups: int, beyond: bool) -> Finding:
    message = (
        f"the rate is written to group {index}, but the optimizer has {groups}: this raises IndexError"
        if beyond
        else f"the rate is written to group {index} of {groups} only: the others keep their first rate"
    )
    return context.finding(
        RULE,
        store,
        message,
        severity="error" if beyond else None,
        evidence=[Evidence("parameter groups", groups), Evidence("group that is written", index)],
        fix=Fix(
            title="write to all groups",
            instruction='for group in optimizer.param_groups: group["lr"] = ...',
            expected="all groups follow the schedule",
        ),
    )
