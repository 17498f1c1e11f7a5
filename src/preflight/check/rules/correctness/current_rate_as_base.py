"""The current learning rate is taken as the base of the schedule.

## What it does
Looks for a schedule that reads `param_groups[...]["lr"]`, multiplies it by a factor of the step, and writes it back.

## Why
The factor is meant for the first rate, but is applied to the result of the step before.
`lr = lr * (1 - step / total)` in each step gives the product of all factors: after a tenth of the run nothing is left.

## Fix
Keep the base rate apart (`group["initial_lr"]`, `optimizer.defaults["lr"]`), and compute each rate from it.

## When to ignore
When each factor is meant to apply to the rate before, and does not depend on the step.

## References
- PyTorch, `torch.optim.lr_scheduler`: schedulers keep base_lrs for this reason
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.counts import operands
from preflight.check.queries.schedules import ends_otherwise
from preflight.check.rule import Rule
from preflight.source.trace import Context as Frame
from preflight.source.trace import Store, provenance
from preflight.source.values import Known, Obj, Unknown, Value, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="current-rate-as-base",
    code="SCH008",
    severity="error",
    confidence="likely",
    needs=("optimizer",),
    tags=("schedule",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(100):
    for group in optimizer.param_groups:
        group["lr"] = group["lr"] * (1 - epoch / 100)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
""",
    """
import math, argparse
from torch import nn
from torch.optim import AdamW as Opt
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1000)
args = parser.parse_args()
def schedule(base, step, total):
    return base * 0.5 * (1 + math.cos(math.pi * step / total))
net = nn.Linear(10, 2)
opt = Opt(net.parameters(), lr=1e-3)
for step in range(args.steps):
    lr = schedule(opt.param_groups[0]["lr"], step, args.steps)
    for g in opt.param_groups:
        g["lr"] = lr
    x, y = next(batches)
    opt.zero_grad()
    nn.functional.mse_loss(net(x), y).backward()
    opt.step()
""",
    """
import torch
class Trainer:
    def __init__(self):
        self.net = torch.nn.Linear(10, 2)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
    def adjust(self, epoch):
        for group in self.opt.param_groups:
            group["lr"] *= 0.1 ** (epoch // 30)
    def fit(self):
        for epoch in range(90):
            self.adjust(epoch)
            for x, y in loader:
                self.opt.zero_grad()
                torch.nn.functional.mse_loss(self.net(x), y).backward()
                self.opt.step()
Trainer().fit()
""",
    """
import torch
model = torch.nn.Linear(10, 2)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
state = {"step": 0}
def rate(base, step, warm):
    if step < warm:
        return base * step / warm
    return base
for x, y in loader:
    if state["step"] >= 1000:
        break
    lr = rate(optimizer.param_groups[0]["lr"], state["step"], 100)
    for group in optimizer.param_groups:
        group["lr"] = lr
    state["step"] += 1
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(100):
    for group in optimizer.param_groups:
        group["lr"] = 0.1 * (1 - epoch / 100)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(100):
    if epoch in (30, 60):
        for group in optimizer.param_groups:
            group["lr"] *= 0.1
    for group in optimizer.param_groups:
        group["lr"] *= 0.99
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
base = optimizer.param_groups[0]["lr"]
for epoch in range(100):
    for group in optimizer.param_groups:
        group["lr"] = base * (1 - epoch / 100)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find writes of a rate that is computed from itself and the step."""
    told: set[int] = set()
    for store in context.trace.stores:
        if store.name != "['lr']" or store.context.shadow or id(store.node) in told:
            continue
        loop = next((t for t in context.reading.loops if store.context.within((t.outer or [t.frame])[-1])), None)
        if loop is None or not _is_group(context, store.target):
            continue
        frame = next(f for f in store.context.loops() if f in (loop.frame, *loop.outer))
        if _guarded(store, frame):
            continue
        for option in options_of(store.value):
            found = _fed_back(context, option, frame)
            if found is not None:
                told.add(id(store.node))
                yield _finding(context, store, found)
                break


def _guarded(store: Store, frame: Frame) -> bool:
    """Whether a branch inside the loop decides that the rate is written."""
    for inner in store.context.frames():
        if inner is frame:
            return False
        if inner.kind in ("if", "except") and inner.taken is not True and not ends_otherwise(inner):
            return True
    return False


def _is_group(context: Context, value: Value) -> bool:
    return any(isinstance(p, Obj) and p.name == "param_groups" for p in provenance(value, 8))


def _fed_back(context: Context, value: Value, frame: Frame, depth: int = 0) -> Obj | None:
    """The rate that is read inside the loop and multiplied by something that the loop counts."""
    base = settle(value)
    parts = operands(base)
    if parts is None or parts[0] not in ("*", "/") or depth > 6:
        return None
    for one, other in ((parts[1], parts[2]), (parts[2], parts[1])):
        rate = _read(context, one, frame)
        if rate is not None and _counts(other):
            return rate
        inner = _fed_back(context, one, frame, depth + 1)
        if inner is not None:
            return inner
        rate = _product_read(context, one, frame)
        if rate is not None and _counts(other):
            return rate
    return None


def _product_read(context: Context, value: Value, frame: Frame) -> Obj | None:
    parts = operands(settle(value))
    if parts is None or parts[0] not in ("*", "/"):
        return None
    return _read(context, parts[1], frame) or _read(context, parts[2], frame)


def _read(context: Context, value: Value, frame: Frame) -> Obj | None:
    base = settle(value)
    if not isinstance(base, Obj) or base.kind != "item" or base.receiver is None or not base.args:
        return None
    key = settle(base.args[0])
    inside = base.context is not None and base.context.within(frame)
    if isinstance(key, Known) and key.value == "lr" and inside and _is_group(context, base.receiver):
        return base
    return None


def _counts(value: Value) -> bool:
    """Whether a factor depends on what a loop counts."""
    return any(isinstance(p, Unknown) and p.reason.startswith("changes ") for p in provenance(value, 40))


def _finding(context: Context, store: Store, rate: Obj) -> Finding:
    return context.finding(
        RULE,
        store,
        "the new learning rate is the current one times a factor of the step: the factors of all steps multiply",
        evidence=[
            Evidence(
                "rate at step n", "lr(n-1) x f(n)", arithmetic="= lr(0) x f(1) x f(2) x ... x f(n), not lr(0) x f(n)"
            )
        ],
        fix=Fix(
            title="compute each rate from the base rate",
            instruction='keep the first rate apart (optimizer.defaults["lr"]) and multiply that',
            expected="the schedule is the one that the factor describes",
        ),
        related=[(rate, "the current rate is read here")],
    )
