"""The evaluation data is shuffled and the training data is not.

## What it does
Looks for a script whose loader of training data does not shuffle while a loader that is only evaluated on does.

## Why
Which of the two shuffles matters for the training alone: in stored order neighbouring batches hold alike samples, and each epoch ends fitted to whatever comes last.
Where only the evaluation shuffles, the two settings were exchanged.

## Fix
Pass `shuffle=True` to the loader of the training data and `shuffle=False` to the other one.

## When to ignore
When the order of the training data carries meaning, and the evaluation looks at a random part on purpose.

## References
- PyTorch documentation, `torch.utils.data.DataLoader`, "Data Loading Order and Sampler"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.loaders import (
    evaluation_loaders,
    set_argument,
    setting,
    training_loaders,
)
from preflight.check.queries.stored_order import in_stored_order
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="evaluation-shuffled-instead",
    code="DAT028",
    severity="warning",
    confidence="likely",
    needs=("loader", "training_loop"),
    layer="D",
    tags=("data", "evaluation"),
    beside=True,
)

_LOOPS = """
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for x, y in train:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        for x, y in held_out:
            model(x)
"""
BAD = (
    f"""
import torch
from torch import nn
from torch.utils.data import DataLoader
train = DataLoader(rows, batch_size=8)
held_out = DataLoader(others, batch_size=8, shuffle=True)
{_LOOPS}""",
    f"""
import torch, torch.utils.data as tud
from torch import nn
def loaders(first, second, flag=False):
    return tud.DataLoader(first, 8, shuffle=flag), tud.DataLoader(second, 8, shuffle=not flag)
train, held_out = loaders(rows, others)
{_LOOPS}""",
    f"""
import torch
from torch import nn
from torch.utils.data import DataLoader as Loader, random_split
parts = random_split(rows, [0.8, 0.2])
train, held_out = Loader(parts[0], 8, False), Loader(parts[1], 8, True)
{_LOOPS}""",
)
GOOD = (
    f"""
import torch
from torch import nn
from torch.utils.data import DataLoader
train = DataLoader(rows, batch_size=8, shuffle=True)
held_out = DataLoader(others, batch_size=8, shuffle=True)
{_LOOPS}""",
    f"""
import torch
from torch import nn
from torch.utils.data import DataLoader, WeightedRandomSampler
train = DataLoader(rows, batch_size=8, sampler=WeightedRandomSampler(weights, 100))
held_out = DataLoader(others, batch_size=8, shuffle=True)
{_LOOPS}""",
    f"""
import torch
from torch import nn
from torch.utils.data import DataLoader
train = DataLoader(rows, batch_size=8)
held_out = DataLoader(others, batch_size=8)
{_LOOPS}""",
    f"""
import torch
from torch import nn
from torch.utils.data import DataLoader
train = DataLoader(rows, batch_size=len(rows))
held_out = DataLoader(others, batch_size=8, shuffle=True)
{_LOOPS}""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
train = DataLoader(rows, batch_size=8)
held_out = DataLoader(others, batch_size=8, shuffle=True)
net, head = nn.GRU(4, 4, batch_first=True), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
state = None
for x, y in train:
    out, state = net(x, state)
    state = state.detach()
    optimizer.zero_grad()
    nn.functional.mse_loss(head(out), y).backward()
    optimizer.step()
with torch.no_grad():
    for x, y in held_out:
        net(x)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Compare the order of what is trained on with that of what is evaluated."""
    trained, others = training_loaders(context), evaluation_loaders(context)
    if not trained or not all(setting(one, "shuffle") is False and in_stored_order(context, one) for one in trained):
        return
    if not others or not all(setting(one, "shuffle") is True for one in others):
        return  # one that samples a few to be shown, beside one that keeps its order
    evaluated = others[0]
    edit = set_argument(context, trained[0], "shuffle", "True")
    yield context.finding(
        RULE,
        trained[0],
        "the training data comes in stored order while the data that is only evaluated on is shuffled: the two were exchanged",
        evidence=[Evidence("shuffle of the training data", False), Evidence("shuffle of the other data", True)],
        related=[(evaluated, "the loader that shuffles")],
        fix=Fix(
            title="shuffle the training data",
            edits=edits(edit) if edit is not None else (),
            instruction="pass shuffle=True to the loader that feeds the training, and shuffle=False to the other one",
            expected="each epoch visits the training samples in another order",
        ),
    )
