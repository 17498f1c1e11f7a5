"""ReduceLROnPlateau waits for a fall of a value that should rise.

## What it does
Looks for an accuracy given to ReduceLROnPlateau in mode "min", which is its default.
What is only called by the name of a score (`val_acc`, `dice`, `miou`) is a warning.

## Why
In mode "min" every improvement of the accuracy counts as a bad epoch.
After `patience` good epochs the learning rate is cut by ten, again and again, while training goes well.

## Fix
Pass `mode="max"`, or give it the loss.

## When to ignore
When what is given is an error, not an accuracy.

## References
- PyTorch, `torch.optim.lr_scheduler.ReduceLROnPlateau`
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.metrics import bare, is_loss, rises_with_matches
from preflight.check.queries.schedules import TORCH, schedulers, steps_of
from preflight.check.queries.states import text_of
from preflight.check.rule import Rule
from preflight.source.trace import Event, provenance
from preflight.source.values import Obj, Value
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="plateau-watches-wrong-way",
    code="SCH014",
    severity="error",
    confidence="likely",
    needs=("scheduler",),
    tags=("schedule",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=5)
for epoch in range(90):
    correct = 0
    for x, y in loader:
        optimizer.zero_grad()
        out = model(x)
        nn.functional.cross_entropy(out, y).backward()
        optimizer.step()
        correct += (out.argmax(1) == y).sum().item()
    scheduler.step(correct / len(loader.dataset))
""",
    """
import argparse, torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau as Plateau
parser = argparse.ArgumentParser()
parser.add_argument("--mode", default="min")
args = parser.parse_args()
net = nn.Linear(10, 2)
opt = torch.optim.Adam(net.parameters())
plateau = Plateau(opt, args.mode)
def accuracy():
    hits, total = 0, 0
    for x, y in test_loader:
        _, predicted = net(x).max(1)
        hits += predicted.eq(y).sum().item()
        total += y.size(0)
    return 100.0 * hits / total
for epoch in range(9):
    for x, y in loader:
        opt.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        opt.step()
    plateau.step(accuracy())
""",
    """
import torch
class Job:
    def __init__(self):
        self.net = torch.nn.Linear(4, 2)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(self.opt)
    def test(self, x, y):
        with torch.no_grad():
            return torch.eq(self.net(x).argmax(-1), y).float().mean()
    def run(self):
        for epoch in range(10):
            self.opt.zero_grad()
            torch.nn.functional.cross_entropy(self.net(a), b).backward()
            self.opt.step()
            self.schedule.step(self.test(c, d))
Job().run()
""",
    """
import torch
net = torch.nn.Linear(4, 2)
opt = torch.optim.Adam(net.parameters())
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, mode="min", patience=3)
for epoch in range(10):
    for x, y in loader:
        opt.zero_grad()
        torch.nn.functional.mse_loss(net(x), y).backward()
        opt.step()
    val_dice = evaluate(net)
    plateau.step(val_dice)
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
a = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max")
b = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
c = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
for epoch in range(90):
    correct, total = 0, 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
        correct += (model(x).argmax(1) == y).sum().item()
    a.step(correct / len(loader.dataset))
    b.step(total / len(loader))
    c.step(1 - correct / len(loader.dataset))
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
for epoch in range(90):
    for x, y in loader:
        optimizer.zero_grad()
        mask = (y == 0).float()
        loss = (nn.functional.cross_entropy(model(x), y, reduction="none") * mask).mean()
        loss.backward()
        optimizer.step()
    plateau.step(loss)
""",
    """
import torch
net = torch.nn.Linear(4, 2)
opt = torch.optim.Adam(net.parameters())
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, mode="min", patience=3)
other = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, mode="max", patience=3)
for epoch in range(10):
    for x, y in loader:
        opt.zero_grad()
        torch.nn.functional.mse_loss(net(x), y).backward()
        opt.step()
    val_loss, dice_loss, acc = evaluate(net)
    plateau.step(val_loss)
    plateau.step(dice_loss)
    other.step(acc)
""",
    """
import torch
net = torch.nn.Linear(4, 2)
opt = torch.optim.Adam(net.parameters())
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=3)
for epoch in range(10):
    acc = 0
    for x, y in loader:
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x), y)
        loss.backward()
        opt.step()
        acc += loss.item()
    plateau.step(acc)
    f1 = 1 - evaluate(net)
    plateau.step(f1)
    val_acc = -evaluate(net)
    plateau.step(metrics=val_acc)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look at what is given to plateau schedulers."""
    for scheduler in schedulers(context):
        if scheduler.name != TORCH + "ReduceLROnPlateau" or scheduler.cls is not None:
            continue
        mode = scheduler.argument(1, "mode")
        if mode is not None and text_of(mode) != "min":
            continue
        for step in steps_of(context, scheduler):
            metric = step.argument(0, "metrics")
            if metric is not None and rises_with_matches(metric):
                yield _finding(context, scheduler, step, mode is not None)
                break
            if metric is not None and _called_a_score(step) and not _falls(context, metric):
                yield _finding(context, scheduler, step, mode is not None, by_name=True)
                break


_SCORES = re.compile(
    r"(?:(?:val|valid|validation|test|eval|dev|mean|avg|average|epoch|current|curr|cur)_)*"
    r"(?:acc|accuracy|top1|acc1|dice|iou|miou|map|mAP|f1|auc|auroc|psnr|ssim|bleu|recall|kappa)(?:_?score)?"
)
"""Names of what is better the higher it is."""


def _called_a_score(step: Event) -> bool:
    """Whether what the scheduler is given goes by the name of something that should rise."""
    node = step.node
    given = (
        [*node.args[:1], *(k.value for k in node.keywords if k.arg == "metrics")] if isinstance(node, ast.Call) else []
    )
    named = given[0] if given else None
    name = named.id if isinstance(named, ast.Name) else named.attr if isinstance(named, ast.Attribute) else ""
    return _SCORES.fullmatch(name) is not None


def _falls(context: Context, metric: Value) -> bool:
    """Whether a value is to fall whatever it is called: it is turned round (``1 - f1``), or made of losses."""
    base = bare(metric)
    turned = isinstance(base, Obj) and base.kind == "op" and base.name in ("neg", "-")
    return turned or any(is_loss(context, part) for part in provenance(metric, 30))


def _finding(context: Context, scheduler: Obj, step: Event, said: bool, by_name: bool = False) -> Finding:
    made = context.reading.event_of(scheduler)
    return context.finding(
        RULE,
        made or scheduler,
        'ReduceLROnPlateau waits for a fall (mode "min"), but is given '
        + (
            "what is called by the name of a score: the rate is cut while the score improves"
            if by_name
            else "a share of right answers: the rate is cut while the accuracy improves"
        ),
        severity="warning" if by_name else None,
        evidence=[
            Evidence("mode", "min" if said else "min (the default)"),
            Evidence("what it is given", step.script.segment(step.node)),
        ],
        fix=Fix(
            title='pass mode="max"',
            edits=edits(context.add_argument(made, 'mode="max"')) if made is not None and not said else (),
            instruction='pass mode="max", or give it the loss',
            expected="the rate is cut when the accuracy stops improving",
        ),
        related=[(step, "the accuracy is given here")],
    )
