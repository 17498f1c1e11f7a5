"""A sum over the epoch is divided by the wrong count.

## What it does
Looks at what a loop adds up and what the sum is divided by.
Right answers are counted per example, a mean loss per batch.

## Why
Right answers divided by the number of batches give an "accuracy" of up to the batch size: 28.4 instead of 0.89.
Batch means divided by the number of examples give a loss that is too small by the batch size.
Curves look the same, but numbers cannot be compared between batch sizes, or with a paper.

## Fix
Divide right answers by len(loader.dataset) (or the examples seen), and sums of batch means by len(loader).

## When to ignore
When only the course of the curve matters.

## References
- PyTorch, `torch.nn.CrossEntropyLoss`: reduction="mean" averages over the batch
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.counts import operands
from preflight.check.queries.loaders import setting
from preflight.check.queries.metrics import added, averaged_match, batch_mean, counted, quotients, scaled
from preflight.check.queries.tensors import graph
from preflight.check.rule import Rule
from preflight.source.trace import Carry
from preflight.source.values import Obj, Unknown, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="average-divided-by-wrong-count", code="MET001", severity="warning", confidence="likely", tags=("metric",)
)

BAD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(10, 2)
loader = DataLoader(dataset, batch_size=32)
correct = 0
for x, y in loader:
    correct += (model(x).argmax(1) == y).sum().item()
print("accuracy", correct / len(loader))
""",
    """
import argparse, torch
import torch.nn.functional as F
from torch.utils.data import DataLoader as Loader
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
args = parser.parse_args()
net = torch.nn.Linear(10, 2)
test_loader = Loader(data, args.batch_size)
def evaluate():
    total = 0.0
    for x, y in test_loader:
        total += F.cross_entropy(net(x), y).item()
    return total / len(test_loader.dataset)
print(evaluate())
""",
    """
import torch
from torch import nn
class Job:
    def __init__(self):
        self.net = nn.Linear(4, 2)
        self.criterion = nn.CrossEntropyLoss()
        self.loader = torch.utils.data.DataLoader(data, batch_size=8)
    def test(self):
        hits = 0
        for x, y in self.loader:
            predicted = self.net(x).max(1)[1]
            hits = hits + predicted.eq(y).sum()
        accuracy = 100.0 * hits / len(self.loader)
        return accuracy
print(Job().test())
""",
)

GOOD = (
    """
import torch
from torch.utils.data import DataLoader
batch_size = 16
loader = DataLoader(samples, batch_size=batch_size)
right = 0
for x, y in loader:
    right += (net(x).argmax(1) == y).sum().item()
print(float(right) / len(loader) / batch_size)
""",
    """
import torch
from torch.utils.data import DataLoader
loader = DataLoader(samples, batch_size=16)
right = 0
for x, y in loader:
    right += (net(x).argmax(1) == y).sum().item()
share = right / len(loader)
share = share / 16
print(share)
""",
    """
import torch
from torch.utils.data import DataLoader
loader = DataLoader(samples, batch_size=16)
right = 0
for x, y in loader:
    right += (net(x).argmax(1) == y).sum().item()
print(right / len(loader) * (1 / 16), 0.0625 * right / len(loader))
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(10, 2)
loader = DataLoader(dataset, batch_size=32)
correct, total, seen = 0, 0.0, 0
for x, y in loader:
    out = model(x)
    correct += (out.argmax(1) == y).sum().item()
    total += nn.functional.cross_entropy(out, y).item() * x.size(0)
    seen += x.size(0)
print("accuracy", correct / len(loader.dataset), correct / seen, "loss", total / len(loader.dataset))
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(10, 2)
loader = DataLoader(dataset, batch_size=32)
total, mean, share = 0.0, 0.0, 0.0
for x, y in loader:
    out = model(x)
    total += nn.functional.cross_entropy(out, y, reduction="sum").item()
    mean += nn.functional.cross_entropy(out, y).item()
    share += (out.argmax(1) == y).float().mean().item()
print(total / len(loader.dataset), mean / len(loader), share / len(loader))
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(10, 2)
loader = DataLoader(dataset, batch_size=1)
correct = 0
for x, y in loader:
    correct += (model(x).argmax(1) == y).sum().item()
print("accuracy", correct / len(loader))
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Compare what is added with what it is divided by."""
    if not any(_worth(context, carry) for carry in context.trace.carried):
        return
    told: set[int] = set()
    for quotient, numerator, denominator in quotients(context):
        unit = _counts(context, denominator)
        node = quotient.site.node if quotient.site is not None else None
        if unit is None or node is None or id(node) in told:
            continue
        sum_, factor = scaled(numerator)
        found = added(context, sum_)
        if found is None or found[1] is None:
            continue
        part, carry = found
        if _made_good(context, quotient, factor, unit[0]):
            continue
        if unit[0] == "batches" and counted(part) is not None and unit[1] > 1:
            told.add(id(node))
            yield _finding(context, quotient, carry, part, "right answers of each example", "batches", "examples")
        elif unit[0] == "examples" and (batch_mean(context, part) or averaged_match(part)):
            told.add(id(node))
            yield _finding(context, quotient, carry, part, "the mean of each batch", "examples", "batches")


def _made_good(context: Context, quotient: Value, factor: float, unit: str) -> bool:
    """Whether another factor makes good for the count: ``right / len(loader) / batch_size``, ``* (1 / batch_size)``.

    A factor of 1 or 100 is none: it gives a share or a percentage.
    """
    made = graph(context).made
    if unit == "batches" and any(o.args and settle(o.args[0]) is quotient for o in made("/")):
        return True
    for product in made("*"):
        parts = operands(product)
        if parts is not None and any(settle(part) is quotient for part in parts[1:]):
            factor *= scaled(product)[1]
    return 0.0 < factor < 1.0 if unit == "batches" else factor not in (1.0, 100.0)


def _worth(context: Context, carry: Carry) -> bool:
    """Whether a loop adds up something that this rule judges."""
    found = added(context, carry.final)
    if found is None:
        return False
    part = found[0]
    return bool(counted(part) or batch_mean(context, part) or averaged_match(part))


def _counts(context: Context, value: Value) -> tuple[str, int] | None:
    """What a length counts: batches of a loader (with the batch size) or examples of a data set."""
    base = settle(value)
    if not isinstance(base, Unknown) or base.name != "len" or len(base.parents) != 1:
        return None
    measured = settle(base.parents[0])
    if not isinstance(measured, Obj):
        return None
    role = context.roles.of(measured)
    if role == "loader":
        size = setting(measured, "batch_size")
        return "batches", size if isinstance(size, int) else 2
    if measured.kind == "attr" and measured.name == "dataset" and measured.receiver is not None:
        return ("examples", 0) if context.roles.of(measured.receiver) == "loader" and not _single(measured) else None
    return ("examples", 0) if role == "dataset" else None


def _single(measured: Obj) -> bool:
    loader = settle(measured.receiver) if measured.receiver is not None else None
    return isinstance(loader, Obj) and setting(loader, "batch_size") == 1


def _finding(
    context: Context, quotient: Value, carry: Carry | None, part: Value, what: str, wrong: str, right: str
) -> Finding:
    effect = "the accuracy exceeds 1" if wrong == "batches" else "the average is too small by the batch size"
    assert carry is not None
    return context.finding(
        RULE,
        quotient,
        f'"{carry.name}" adds up {what}, but is divided by the number of {wrong}: {effect}',
        severity="warning" if wrong == "batches" else "info",
        evidence=[Evidence("added in each pass", what), Evidence("divided by", f"number of {wrong}")],
        fix=Fix(
            title=f"divide by the number of {right}",
            instruction="use len(loader.dataset)" if right == "examples" else "use len(loader)",
            expected="the number can be compared between batch sizes",
        ),
        related=[(part, "this is added in each pass")],
    )
