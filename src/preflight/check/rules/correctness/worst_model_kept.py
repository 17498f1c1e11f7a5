"""The model that is kept as the best is the worst, or none is ever kept.

## What it does
Looks at the comparison that decides whether a checkpoint is written: is an accuracy kept when it is lower, a loss when it is higher, and can the value that the comparison begins with be beaten?

## Why
`if accuracy < best` writes the checkpoint of every epoch that is worse than all before.
A loss that has to fall below a first `best_loss = 0`, or an accuracy above a first `best = 1`, never does: no checkpoint is written, and the end of the run finds none.

## Fix
Keep a higher accuracy, beginning with 0; keep a lower loss, beginning with infinity.

## When to ignore
When the checkpoint is of the hardest epochs on purpose.

## References
- PyTorch tutorials, "Saving and Loading Models"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.losses import is_loss
from preflight.check.queries.metrics import rises_with_matches
from preflight.check.rule import Rule
from preflight.source.trace import Context as Frame
from preflight.source.trace import Event, provenance
from preflight.source.values import Choice, Dict, Known, Obj, Seq, Unknown, Value, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="worst-model-kept",
    code="MET006",
    severity="error",
    confidence="likely",
    layer="D",
    tags=("metric", "checkpoint"),
)

BAD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(10, 2)
loader = DataLoader(dataset, batch_size=32)
best = 1.0
for epoch in range(10):
    correct, total = 0, 0
    for x, y in loader:
        correct += (model(x).argmax(1) == y).sum().item()
        total += len(y)
    accuracy = correct / total
    if accuracy < best:
        best = accuracy
        torch.save(model.state_dict(), "best.pt")
""",
    """
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
net = torch.nn.Linear(10, 2)
loader = DataLoader(dataset, batch_size=32)
best_loss = 0.0
for epoch in range(10):
    total = 0.0
    for x, y in loader:
        total += F.cross_entropy(net(x), y).item()
    if total / len(loader) < best_loss:
        best_loss = total / len(loader)
        torch.save(net.state_dict(), "best.pt")
""",
    """
import torch
from torch.utils.data import DataLoader
net = torch.nn.Linear(10, 2)
loader = DataLoader(dataset, batch_size=32)
least = float("inf")
for epoch in range(10):
    loss_sum = 0.0
    for x, y in loader:
        loss_sum += torch.nn.functional.mse_loss(net(x), y).item()
    if least < loss_sum:
        least = loss_sum
        torch.save(net.state_dict(), "best.pt")
""",
)

GOOD = (
    """
import torch
import torch.nn.functional as F
from torch import nn
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def evaluate(net, batches, which):
    total = 0.0
    for x, y in batches:
        total += F.binary_cross_entropy_with_logits(net(x), y).item()
    return (total, f1_of(net))[which]
best = evaluate(model, held_out, chosen())
for epoch in range(10):
    for x, y in batches:
        optimizer.zero_grad()
        F.binary_cross_entropy_with_logits(model(x), y).backward()
        optimizer.step()
    now = evaluate(model, held_out, chosen())
    if now > best:
        best = now
        torch.save(model.state_dict(), "best.pt")
""",
    """
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
train, held_out = DataLoader(first, batch_size=8, shuffle=True), DataLoader(second, batch_size=8)
def validate():
    losses = []
    for x, y in held_out:
        losses.append(F.cross_entropy(net(x), y).item())
    metrics = scores_of(net)
    metrics["loss"] = sum(losses) / len(losses)
    return metrics["precision"], metrics["distance"]
best, nearest = validate()
for epoch in range(10):
    for x, y in train:
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    precision, distance = validate()
    if precision > best:
        best = precision
        torch.save(net.state_dict(), "best.pt")
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(10, 2)
loader = DataLoader(dataset, batch_size=32)
best = 0
for epoch in range(10):
    correct, total = 0, 0
    for x, y in loader:
        correct += (model(x).argmax(1) == y).sum().item()
        total += len(y)
    accuracy = correct / total
    if accuracy > best:
        best = accuracy
        torch.save(model.state_dict(), "best.pt")
""",
    """
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
net = torch.nn.Linear(10, 2)
loader = DataLoader(dataset, batch_size=32)
best_loss = float("inf")
for epoch in range(10):
    total = 0.0
    for x, y in loader:
        total += F.cross_entropy(net(x), y).item()
    if best_loss > total:
        best_loss = total
        torch.save(net.state_dict(), "best.pt")
""",
    """
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
net = torch.nn.Linear(10, 2)
loader = DataLoader(dataset, batch_size=32)
best = float("-inf")
for epoch in range(10):
    total = 0.0
    for x, y in loader:
        total += F.cross_entropy(net(x), y).item()
    score = -total
    if score > best:
        best = score
        torch.save(net.state_dict(), "best.pt")
""",
    """
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
net = torch.nn.Linear(10, 2)
best_loss = 0.0
for epoch in range(10):
    total = 0.0
    for x, y in DataLoader(dataset, batch_size=32):
        total += F.cross_entropy(net(x), y).item()
    if epoch == 0 or total < best_loss:
        best_loss = total
        torch.save(net.state_dict(), "best.pt")
""",
)

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def check(context: Context) -> Iterator[Finding]:
    """Look at the tests that decide whether a checkpoint is written."""
    told: set[int] = set()
    for event in context.trace.calls("torch.save"):
        for frame in event.context.frames():
            if frame.kind != "if" or frame.polarity is not True or id(frame.node) in told:
                continue
            told.add(id(frame.node))
            wrong = _wrong(frame)
            if wrong is not None:
                yield _finding(context, event, *wrong)


def _wrong(frame: Frame) -> tuple[str, str] | None:
    """What is wrong with a test of a new value against the best, and what it should be."""
    test, best_is = settle(frame.value) if frame.value is not None else None, _side_that_is_set(frame.node)
    if not isinstance(test, Obj) or test.name not in _TURNED or len(test.args) != 2 or best_is is None:
        return None
    new, best = test.args[1 - best_is], test.args[best_is]
    sign = test.name if best_is == 1 else _TURNED[test.name]
    wants = ">" if rises_with_matches(new) else "<" if _is_loss(new) else None
    if wants is None:
        return None
    what, first = "accuracy" if wants == ">" else "loss", _first(best)
    if not sign.startswith(wants):
        kept = "lower" if wants == ">" else "higher"
        return f"a checkpoint is kept when the {what} is {kept} than the best so far", wants
    if first is not None and ((what == "loss" and first <= 0) or (what == "accuracy" and first >= 1 and sign == ">")):
        return f"the best {what} begins with {first:g}, which none beats: no checkpoint is ever kept", wants
    return None


def _side_that_is_set(node: ast.AST | None) -> int | None:
    """Which side of a test (0, 1) its branch sets anew: the best so far; None where it is no such test."""
    if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare) or len(node.test.ops) != 1:
        return None
    sides = [ast.unparse(node.test.left), ast.unparse(node.test.comparators[0])]
    assigned = {
        ast.unparse(target)
        for statement in node.body
        for part in ast.walk(statement)
        if isinstance(part, ast.Assign)
        for target in part.targets
    }
    found = [number for number, side in enumerate(sides) if side in assigned]
    return found[0] if len(found) == 1 else None


def _first(value: Value) -> float | None:
    """The worth that the best begins with; None where it is not known."""
    for option in options_of(value, limit=8):
        first = settle(option.initial) if isinstance(option, Unknown) and option.initial is not None else option
        if isinstance(first, Known) and isinstance(first.value, (int, float)) and not isinstance(first.value, bool):
            return float(first.value)
    return None


def _is_loss(value: Value) -> bool:
    """Whether a number is a loss, or a sum or mean of losses: nothing turns its sign."""
    base = settle(value)
    if isinstance(base, Choice):
        options = [o for o in base.options if not isinstance(settle(o), Known)]
        return bool(options) and all(_is_loss(o) for o in options)
    found = False
    for part in provenance(value, 200, ends=_of_several):
        if isinstance(part, Obj) and part.kind == "op" and part.name not in ("+", "/", "*", "//"):
            return False
        if isinstance(part, Obj) and is_loss(part) is not None:
            found = True
            break
    return found


def _of_several(value: Value) -> bool:
    """A table of metrics, or the results of a function beside each other: one loss says nothing about the others."""
    return isinstance(value, Dict) or (isinstance(value, Seq) and value.kind == "tuple")


def _finding(context: Context, event: Event, text: str, wants: str) -> Finding:
    return context.finding(
        RULE,
        event,
        text,
        evidence=[Evidence("kept when", "higher" if wants == ">" else "lower", "what should decide")],
        fix=Fix(
            title="keep the better model",
            safe=False,
            instruction="keep a higher accuracy, beginning with 0"
            if wants == ">"
            else "keep a lower loss, beginning with float('inf')",
            expected="the checkpoint is that of the best epoch",
        ),
    )
